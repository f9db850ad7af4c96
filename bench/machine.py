"""What a benchmark must say about where it ran, and how it sums up its rounds."""

import os
import platform
import statistics


def describe_machine():
    """One line: processor, cores this process may use, load when asked."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    model = line.split(":", 1)[1].strip()
                    break
    except OSError:
        pass
    load = os.getloadavg()[0]
    return f"{model}, {len(os.sched_getaffinity(0))} cores, load {load:.1f}"


def spread(values):
    """'median (least to most, n)'."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}, {len(values)} rounds)"
