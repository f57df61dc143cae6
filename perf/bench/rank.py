# SPDX-License-Identifier: Apache-2.0
"""What a launcher starts as one rank of `tributary bench`: rank.py CONFIG, base64 of JSON, which no shell on the way changes."""
import base64
import json
import os
import re
import subprocess
import sys

# Where launchers say what torchrun says in RANK, WORLD_SIZE and LOCAL_RANK: torchrun, Open MPI, PALS, MPICH and others, srun, whose
# PMI-2 sets two of MPICH's.
RANKS = (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
         ("PMI_RANK", "PMI_SIZE", "PALS_LOCAL_RANKID"), ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
         ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))
PORT = "29533"   # and the one after it, of rank 0's host


def first_host(hosts):
    """Of Slurm's list, as "rack[1-2]node[01-04,7],other"."""
    first = re.match(r"(?:\[[^]]*\]|[^\[,])*", hosts).group()
    return re.sub(r"\[(\w+)[^]]*\]", r"\1", first)


def launched(environment, host):
    """What torchrun would set, from what this launcher has set. host: where `tributary bench` runs."""
    for rank, size, local in RANKS:
        if rank in environment and size in environment and (local in environment or rank == "RANK"):
            nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST")
            return {"RANK": environment[rank], "WORLD_SIZE": environment[size], "LOCAL_RANK": environment.get(local, "0"),
                    "MASTER_ADDR": environment.get("MASTER_ADDR") or (first_host(nodes) if nodes else host),
                    "MASTER_PORT": environment.get("MASTER_PORT") or PORT}
    return {}


def collnet_gain(program):
    """What `tributary env` would switch collnet on for, on this host: in thousandths of NCCL's rate. 0: it would not."""
    env = {name: value for name, value in os.environ.items() if name != "NCCL_COLLNET_ENABLE"}
    answer = subprocess.run([program, "env", "--json"], env=env, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    found = json.loads(answer)
    return 0 if found["no_collnet"] else int((found["gain"] or 0) * 1000)


def driver(config):
    words = [config["driver"], "--plugin", config["plugin"], "--vs", config["vs"], "--operations", ",".join(config["operations"]),
             "--bytes", ",".join("%d" % size for size in config["sizes"]), "--pairs", "%d" % config["turns"],
             "--seconds", "%g" % config["seconds"], "--timeout", "%g" % min(config["timeout"], 60), "--nap-us", "50",
             "--collnet-gain", "%d" % collnet_gain(config["program"])]
    if "RANK" not in os.environ:
        words += ["--spawn", "%d" % (config["ranks"] or 2)]
    os.execv(words[0], words)


def main():
    config = json.loads(base64.urlsafe_b64decode(sys.argv[1]))
    os.environ.update(launched(os.environ, config["host"]))
    print(json.dumps({"what": "rank", "rank": int(os.environ.get("RANK", "0"))}), flush=True)
    if config["worker"] == "plugins":
        return driver(config)
    import gpu
    return gpu.main(config)


if __name__ == "__main__":
    sys.exit(main())
