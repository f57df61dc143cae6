# SPDX-License-Identifier: Apache-2.0
"""Tributary, an NCCL plugin, for programs that use NCCL through Python.

    import tributary
    tributary.enable()          # before torch.distributed.init_process_group
"""
import os
import sys
import warnings

_HERE = os.path.dirname(os.path.abspath(__file__))
_VARIABLES = ("NCCL_ENV_PLUGIN", "NCCL_NET_PLUGIN")
_PATH_MOST = 254  # bytes of a plugin's name that NCCL keeps


def library():
    """The path of the plugin. The wheel has it once, so that all its halves share their data."""
    return os.path.join(_HERE, "lib", "libnccl-net-tributary.so")


def command():
    """The path of the program `tributary`."""
    return os.path.join(_HERE, "bin", "tributary")


def enable():
    """Have NCCL load the plugin in this process and those that it starts.

    Sets NCCL_ENV_PLUGIN and NCCL_NET_PLUGIN. A variable that is set to another plugin stays, with a warning. To be called on
    every host, before the first communicator: NCCL reads its variables once. Raises RuntimeError when it is too late. NCCL
    before 2.21 takes no path: there, `tributary run -- COMMAND` starts the program.
    """
    path = library()
    if not os.access(path, os.R_OK):
        raise RuntimeError(f"tributary: {path} is missing: install tributary-nccl again")
    if len(os.fsencode(path)) > _PATH_MOST:
        raise RuntimeError(f"tributary: NCCL takes {_PATH_MOST} bytes of a path, this one is longer: {path}")
    distributed = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        raise RuntimeError("tributary: call enable() before torch.distributed.init_process_group")
    for variable in _VARIABLES:
        own = os.environ.get(variable)
        if own and not any("tributary" in os.path.basename(plugin) for plugin in own.split(",")):
            warnings.warn(f"{variable}={own} stays as it is set, so NCCL does not load Tributary by it", stacklevel=2)
        else:
            os.environ[variable] = path
