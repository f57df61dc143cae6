# SPDX-License-Identifier: Apache-2.0
"""One rank. Reads a question a line, answers a line: {"wrong": n} for a check, {"us": t, "wrong": n} for a timing.

TRIBUTARY_GPU_BACKEND=gloo runs it on the CPU, to test the tests where there is no GPU.
"""
import datetime
import json
import os
import sys
import time

import torch
import torch.distributed as dist

import operations


def check(case):
    case.run()
    return {"wrong": case.wrong()}


def measure(case, question, synchronize):
    """The mean time of a call in a row of them; then one more on fresh buffers, whose result is looked at."""
    for _ in range(question["warmup"]):
        case.run()
    synchronize()
    dist.barrier()
    synchronize()
    began = time.perf_counter()
    for _ in range(question["iterations"]):
        case.run()
    synchronize()
    us = (time.perf_counter() - began) / question["iterations"] * 1e6
    case.reset()
    return {"us": us, **check(case)}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not end up between the answers
    backend = os.environ.get("TRIBUTARY_GPU_BACKEND", "nccl")
    device = torch.device("cpu" if backend == "gloo" else "cuda:%d" % (int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()))
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=120))
    synchronize = torch.cuda.synchronize if backend == "nccl" else lambda: None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            case = operations.Case(torch, dist, device, question["op"], question["type"], question["count"],
                                   question.get("redop", "sum"), question.get("root", 0),
                                   question.get("special", False))
            answer = measure(case, question, synchronize) if "iterations" in question else check(case)
        except Exception as e:  # told to the parent, which then ends the group
            answer = {"error": "%s: %s" % (type(e).__name__, e)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if "error" in answer:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
