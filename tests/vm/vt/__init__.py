# SPDX-License-Identifier: Apache-2.0
"""Programs run in small virtual machines: see ../README.md."""
