# SPDX-License-Identifier: Apache-2.0
"""The wheel holds programs of one machine and no module of Python's own ABI: one wheel for every Python."""
import os

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel


class Programs(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", os.environ["TRIBUTARY_WHEEL_PLATFORM"]


setup(version=os.environ["TRIBUTARY_VERSION"], distclass=Programs, cmdclass={"bdist_wheel": Wheel})
