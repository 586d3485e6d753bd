"""Bundles: one file with one or more datasets, that anyone can make, host on any web server, verify and install.

A bundle is a zip file without compression (numbers hardly compress, and what is not compressed cannot unpack to
more than was sent; arrays that HDF5 itself has compressed are bounded where they are read). Unpacked below Minari's
root it is the datasets:

    <dataset id>/data/metadata.json      of each dataset, sorted by id
    <dataset id>/data/main_data.hdf5
    manifest.json                        what is in it: ids, specs, platform tags, size and sha256 of each file

All of it follows from the datasets: packing the same ones twice gives the same bytes. A stranger's bundle is data
and never code: JSON and HDF5, checked before a dataset appears, in places that follow from the dataset ids.
"""
