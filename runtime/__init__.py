"""Objects, arena and threads to numpy. Needs numpy, ctypes and the object linker only."""
