"""The notebooks, run in kernels of the environments that noxfile.py makes with other versions of every package."""
