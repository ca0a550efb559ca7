"""python -m unhang: the program."""
from .program import main

main()
