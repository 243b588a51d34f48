"""Whether controllers come to the same end whatever happens to them on the way.

After the method of Sieve (OSDI 2022) and Anvil (OSDI 2024): a workload, which is the controllers under test and a
script of what users do, runs once undisturbed. Then it runs again and again, each time with one thing going wrong,
until everything has gone wrong at every place: the process dies after a write, starts on a view of the past, never
receives an event, or is cancelled at an await. Each time it has to end as the undisturbed run did.

Start with `checking.check_under_faults`. `workload` is what a test provides, `faults` what goes wrong, `running`
one run, `oracle` the judgement, `stepping` the way to an await in the middle of a coroutine.
"""

from tests.faults.checking import FaultReport, check_under_faults
from tests.faults.operators import check_operator_under_faults
from tests.faults.oracle import FaultFinding
from tests.faults.stepping import ReconcileCut
from tests.faults.workload import Process, Script, Users, Workload

__all__ = [
    "FaultFinding",
    "FaultReport",
    "Process",
    "ReconcileCut",
    "Script",
    "Users",
    "Workload",
    "check_operator_under_faults",
    "check_under_faults",
]
