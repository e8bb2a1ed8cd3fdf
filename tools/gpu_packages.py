"""Debian's packages with which mezzo is built, for a GPU machine on which nothing can be installed. They are
fetched on a machine with apt, copied over, and unpacked into a folder of their own."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Packages that exist wherever there is a compiler. Another C library or runtime than the compiler's
# would break it.
THERE = {"g++", "cmake", "ninja-build", "python3", "libc6", "libc6-dev", "libgcc-s1", "libstdc++6", "libgomp1"}
# Only for processes that train together: they are four times as many packages as all the others.
# Where the machine has an MPI of its own, mezzo is built with that.
LEFT_OUT = {"libopenmpi-dev", "openmpi-bin"}


def dependencies(packages):
    """The dependencies of all packages, the first of alternatives, without those in THERE or only virtual."""
    listed = subprocess.run(
        ["apt-cache", "depends", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks",
         "--no-replaces", "--no-enhances", "--no-pre-depends", *packages],
        check=True, capture_output=True, text=True).stdout
    found, is_alternative = set(), False
    for line in listed.splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind in ("Depends", "|Depends"):
            if not is_alternative and not name.startswith("<"):
                found.add(name)
            is_alternative = kind.startswith("|")
    return found - THERE


def fetch(folder):
    """Downloads the packages that ./run names for building and testing, and what they depend on."""
    named = subprocess.run([str(ROOT / "run"), "packages"], check=True, capture_output=True, text=True).stdout
    wanted, new = set(), set(named.split()) - THERE - LEFT_OUT
    while new:
        wanted |= new
        new = dependencies(sorted(new)) - wanted
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "-qq", "download", *sorted(wanted)], cwd=folder, check=True)
    files = list(folder.glob("*.deb"))
    print(f"{len(files)} packages, {sum(file.stat().st_size for file in files) / 2**20:.1f} MB, in {folder}")


def unpack(folder, prefix):
    files = sorted(folder.glob("*.deb"))
    if not files:
        raise SystemExit(f"gpu_check: no packages in {folder}. Fetch them with tools/gpu_check --fetch-packages DIR.")
    prefix.mkdir(parents=True, exist_ok=True)
    for file in files:
        subprocess.run(["dpkg", "-x", str(file), str(prefix)], check=True)
    # Links of a library to /lib would point to the machine's own library, or nowhere.
    for link in prefix.rglob("*"):
        if link.is_symlink() and os.path.isabs(os.readlink(link)):
            target = prefix / os.readlink(link).lstrip("/")
            link.unlink()
            link.symlink_to(target)


def joined(folders, name):
    """The value of an environment variable that lists folders, with these in front of the existing ones."""
    return os.pathsep.join([*(str(folder) for folder in folders), *filter(None, [os.environ.get(name)])])


def environment(prefix):
    """The variables with which CMake, compilers and programs find the packages unpacked in `prefix`."""
    usr = prefix / "usr"
    libraries = [folder for top in (usr / "lib", prefix / "lib") for folder in [*sorted(top.glob("*-linux-gnu")), top]
                 if folder.is_dir()]
    return {
        "CMAKE_PREFIX_PATH": joined([usr], "CMAKE_PREFIX_PATH"),
        "CMAKE_LIBRARY_PATH": joined(libraries, "CMAKE_LIBRARY_PATH"),
        "CMAKE_INCLUDE_PATH": joined([usr / "include"], "CMAKE_INCLUDE_PATH"),
        # Headers of one architecture, which the compiler would only find by itself in /usr.
        "CPLUS_INCLUDE_PATH": joined(sorted((usr / "include").glob("*-linux-gnu")), "CPLUS_INCLUDE_PATH"),
        "LD_LIBRARY_PATH": joined(libraries, "LD_LIBRARY_PATH"),
        "PATH": joined([usr / "bin"], "PATH"),
    }


def wheels():
    """Folders with a `lib` in which Python packages such as PyTorch's keep cuDNN, cuBLASLt, NCCL and more of CUDA."""
    code = "import nvidia; print(*nvidia.__path__, sep='\\n')"
    found = subprocess.run(["python3", "-c", code], capture_output=True, text=True, timeout=60)
    folders = [pathlib.Path(line) for line in found.stdout.splitlines()] if found.returncode == 0 else []
    return [part for folder in folders for part in sorted(folder.glob("*")) if (part / "lib").is_dir()]


def cached(cache, variable):
    """The value of a variable in CMake's cache; empty without it."""
    text = cache.read_text(encoding="utf-8") if cache.exists() else ""
    lines = [line for line in text.splitlines() if line.startswith(f"{variable}:")]
    value = lines[0].partition("=")[2] if lines else ""
    return "" if value.endswith("-NOTFOUND") else value


def used_wheels(cache):
    """The folders in which CMake found a library, from its cache; they also hold what it loads itself."""
    text = cache.read_text(encoding="utf-8") if cache.exists() else ""
    lines = [line for line in text.splitlines() if line.startswith(("MEZZO_CU", "MEZZO_NCCL_")) and "_LIBRARY:" in line]
    found = wheels()
    return found if any(str(part) in line for part in found for line in lines) else []


def toolkit_libraries(cache):
    """Folders of the libraries that belong to the nvcc that built."""
    text = cache.read_text(encoding="utf-8") if cache.exists() else ""
    compilers = [pathlib.Path(line.partition("=")[2]) for line in text.splitlines()
                 if line.startswith("MEZZO_NVCC:")]
    found = [compiler.resolve().parent.parent / name for compiler in compilers for name in ("lib64", "lib")]
    return [folder for folder in found if folder.is_dir()]
