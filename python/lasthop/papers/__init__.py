"""Published studies: scenarios, published numbers and claims, one folder each.

The folder `papers` at the top of the repository is this one; it lives inside the package so that an
installed wheel has the studies too.
"""
