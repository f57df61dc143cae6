"""Programs run in small virtual machines: see ../README.md."""
