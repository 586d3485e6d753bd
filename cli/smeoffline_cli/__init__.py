"""The command line: thin click commands over the `smeoffline` library, one module each."""
