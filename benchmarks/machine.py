"""What a result file says of the machine and the programs that were measured."""
import pathlib
import re
import subprocess

WIDEST = {"AMX-BF16": "amx", "AVX512-BF16": "avx512bf16", "AVX-512": "avx512", "AVX2": "avx2"}
NOISE = re.compile(r"\(\w+\)|\b(?:AMD|Intel|CPU|Processor|\d+-Core)\b|@.*")


def output_of(*command, cwd=None):
    """The output of a program, or nothing if it fails."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def cpu_family():
    try:
        match = re.search(r"cpu family\s*: (\d+)",
                          pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        return None
    return match and int(match[1])


def kind(cpu, features, family):
    """A short name: zen4, xeon-amx. AMD's family tells generations apart that clouds call the same."""
    if "AMD" in cpu and family == 25:
        return "zen4" if "AVX-512" in features else "zen3"
    if "AMD" in cpu and family == 26:
        return "zen5"
    words = re.findall(r"[a-z0-9]+", NOISE.sub(" ", cpu).lower()) or ["cpu"]
    return "-".join(words + [short for name, short in WIDEST.items() if name in features][:1])


def described(info, threads, name=None):
    """The machine of a result file, by what `mezzo info` prints."""
    lines = dict(line.split(None, 1) for line in info.splitlines() if len(line.split(None, 1)) == 2)
    cpu = re.sub(r", \d+ threads?$", "", lines.get("cpu", "unknown"))
    features = [part.rsplit(" ", 1)[0] for part in lines.get("features", "").split(", ")
                if part.endswith(" yes")]
    return {"name": name or f"{kind(cpu, features, cpu_family())}-{threads}vcpu", "cpu": cpu,
            "threads": threads, "features": features}


def compiler(build):
    """The name and version that CMake found, for example GNU 12.2.0."""
    for path in build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
        found = dict(re.findall(r'set\(CMAKE_CXX_COMPILER_(ID|VERSION) "([^"]+)"\)',
                                path.read_text(encoding="utf-8")))
        return " ".join(found.get(part, "") for part in ("ID", "VERSION")).strip()
    return None


def commit(root):
    name = output_of("git", "rev-parse", "--short=12", "HEAD", cwd=root)
    changed = name and output_of("git", "status", "--porcelain", "--untracked-files=no", cwd=root)
    return f"{name}, changed" if changed else name


def versions(info, bin_dir, pytorch):
    """Those that are known."""
    onednn = re.search(r"oneDNN ([\d.]+)", info)
    found = {"mezzo": commit(pathlib.Path(__file__).resolve().parent), "pytorch": pytorch,
             "onednn": onednn and onednn[1], "compiler": compiler(bin_dir.resolve().parent)}
    return {name: version for name, version in found.items() if version}
