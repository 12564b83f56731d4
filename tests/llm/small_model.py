"""Serves a small real model (llama.cpp) on a loopback port, and prints its address; it ends with its standard input.

It runs in an environment of its own, with the packages of `tests.llm.test_real_model`.
"""

import sys
from typing import Any

import xllamacpp  # type: ignore[import-not-found]

if __name__ == "__main__":
    params: Any = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.n_ctx, params.n_parallel = 4 * 2048, 4
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = (
        1  # more would wait for each other on a busy machine
    )
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
