"""What the benchmarks share: contestants as processes, their results, and how they were measured."""
import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# How each library is held to an instruction set: oneDNN (ours, PyTorch's, TensorFlow's), PyTorch's own
# kernels, and MKL. TensorFlow's own kernels choose by themselves, and need AVX.
INSTRUCTION_SETS = {
    "native": {},
    "avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "ATEN_CPU_CAPABILITY": "avx512",
               "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
             "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "sse41": {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default",
              "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
}


def last_json(text, command):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    sys.exit(f"no JSON object in the output of {' '.join(command)}:\n{text[-2000:]}")


def processor():
    """The processor's name, as /proc has it."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def start(command, cpus, environment):
    """A process of its own group on some cores; a contestant sees no other job's variables."""
    clean = {k: v for k, v in os.environ.items() if k not in ("TF_CONFIG", "WORLD_SIZE", "RANK")}
    return subprocess.Popen(
        command, env={**clean, "CUDA_VISIBLE_DEVICES": "", **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus))


def finish(processes, timeout):
    """Outputs, in order. If one fails or is late, the others are ended too."""
    outputs = []
    try:
        for process in processes:
            output, _ = process.communicate(timeout=timeout)
            if process.returncode != 0:
                sys.exit(f"{' '.join(process.args)} ended with {process.returncode}:\n"
                         f"{output[-3000:]}")
            outputs.append(last_json(output, process.args))
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(processes[len(outputs)].args)} took over {timeout} s")
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return outputs


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def version_of(trainer):
    """Ours, and the commit of this tree, where it is one."""
    said = subprocess.run([trainer, "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    commit = shutil.which("git") and subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"], check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
    return f"{said} ({commit})" if commit else said


def circumstances(versions):
    """When and how it was measured. `versions`: of each contestant, as it says."""
    policy = os.sched_getscheduler(0)
    policies = {os.SCHED_OTHER: "normal", os.SCHED_FIFO: "real-time", os.SCHED_RR: "real-time"}
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "priority": policies.get(policy, str(policy)),
            "versions": versions}


def add_python(parser, libraries):
    """The option for the Python that has the rivals."""
    deps = os.environ.get("LOCKSTEP_DEPS_DIR", os.path.expanduser("~/.cache/lockstep"))
    parser.add_argument("--python", default=f"{deps}/peers/bin/python",
                        help=f"with {libraries} (default: what tools/setup bench makes)")


def expect_programs(name, *programs):
    for program in programs:
        if not os.access(program, os.X_OK):
            sys.exit(f"{name}: {program} is no program: `make build` and `tools/setup bench` first")


def save(summary, path):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(json.dumps(summary, indent=2) + "\n")


def count_from(least):
    """What argparse makes an option's text into: a whole number that is not less."""
    def count(text):
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"found {number}, expected {least} or more")
        return number
    return count
