"""How slow this machine and this build are, beside those on which the tests' time limits were chosen."""
import os

SLOWNESS = int(os.environ.get("LOCKSTEP_TIME_PERCENT", "100")) / 100  # cmake/TimeLimits.cmake
