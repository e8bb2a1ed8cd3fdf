// A library without functions, which is loaded in the place of a real one.
