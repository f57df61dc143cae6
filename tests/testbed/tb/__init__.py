# SPDX-License-Identifier: Apache-2.0
"""A cluster on one machine: hosts are network namespaces, leaf switches are bridges, links are shaped veth pairs."""
