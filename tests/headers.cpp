// An empty source to which the precompiled headers of the tests belong.
