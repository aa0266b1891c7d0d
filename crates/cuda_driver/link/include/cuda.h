/* On Windows the build script of `cust` takes a folder for a CUDA installation where it finds a file of this name. */
