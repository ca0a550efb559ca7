"""unhang's plugin for vLLM, which calls register() in each of its processes. Without UNHANG_VLLM=1 it does nothing and imports nothing."""
import os
import sys


def register() -> None:
    if os.environ.get("UNHANG_VLLM", "").strip() != "1":
        return
    try:
        import unhang
        unhang.start_recorder()
    except Exception as problem:  # whatever it is, vLLM goes on
        sys.stderr.write(f"unhang: recorder: vLLM is not recorded: {type(problem).__name__}: {problem}\n")
