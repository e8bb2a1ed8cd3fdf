"""Arrays, against numpy."""
import common

DTYPES = ("float16", "float32", "float64", "int32", "int64", "uint8", "bool")


def arrays():
    import numpy
    for dtype in DTYPES:
        for shape in ((), (0, 3), (5,), (2, 3, 4)):
            yield (numpy.arange(numpy.prod(shape)).reshape(shape) % 7).astype(dtype)


def copies(folder):
    """mezzo reads what np.save writes, and writes the same bytes"""
    import numpy
    for array in arrays():
        numpy.save(folder / "numpy.npy", array)
        common.files("copy-npy", folder / "numpy.npy", folder / "mezzo.npy")
        assert (folder / "mezzo.npy").read_bytes() == (folder / "numpy.npy").read_bytes(), array


def orders(folder):
    """Fortran order and big-endian arrays arrive the same"""
    import numpy
    for array in arrays():
        for other in (numpy.array(array, order="F"), array.astype(array.dtype.newbyteorder(">"))):
            numpy.save(folder / "numpy.npy", other)
            common.files("copy-npy", folder / "numpy.npy", folder / "mezzo.npy")
            read = numpy.load(folder / "mezzo.npy")
            assert read.dtype == array.dtype and numpy.array_equal(read, array), array


if __name__ == "__main__":
    common.main(["numpy"], [copies, orders])
