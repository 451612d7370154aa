"""All lists of hostile inputs: a table of those that come to no good end, and how many did."""

import argparse
import collections
import importlib
import json
import logging
import sys
import time

from abuse.children import outcomes
from abuse.subjects import cases_of
from abuse.verdict import GOOD, outcome

ROOMS = "dynamics", "ddp", "problems", "viz", "command"


def main():
    parser = argparse.ArgumentParser(prog="abuse", description=__doc__)
    told = f"some of {', '.join(ROOMS)}; viz:31 for every 31st input of viz alone"
    parser.add_argument("rooms", nargs="*", default=ROOMS, help=told)
    parser.add_argument("--only", default="", help="subjects whose name holds this")
    parser.add_argument("--table", action="store_true", help="print what became of every input")
    parser.add_argument("--json", action="store_true", help="print counts and failures of each room, a line of JSON")
    chosen = parser.parse_args()
    logging.disable()
    total = collections.Counter()
    for asked in chosen.rooms:
        started, told = time.monotonic(), []
        room, _, every = asked.partition(":")
        subjects = importlib.import_module(f"abuse.of_{room}").subjects()
        cases = list(cases_of([s for s in subjects if chosen.only in s.name]))[:: int(every or 1)]
        for subject in dict.fromkeys(case.subject for case in cases):
            if not subject.refuses:
                subject.call(**subject.arguments)  # valid, and its kernels are compiled before the children fork
        counts = collections.Counter()
        for i, what in outcomes(len(cases), lambda i, cases=cases: outcome(cases[i])):
            counts[what.split(":")[0] if what.startswith(GOOD) else "bad"] += 1
            if chosen.table or not what.startswith(GOOD):
                told.append((str(cases[i]), what))
                if not chosen.json:
                    print(f"{cases[i]!s:70} {what}", flush=True)
        total += counts
        if chosen.json:
            bad = [line for line in told if not line[1].startswith(GOOD)]
            print(json.dumps({"room": room, "counts": counts, "bad": bad}), flush=True)
        else:
            seconds = time.monotonic() - started
            summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            print(f"{room}: {len(cases)} inputs in {seconds:.0f} s: {summary}", flush=True)
    sys.exit(1 if total["bad"] else 0)


if __name__ == "__main__":
    main()
