"""Copy the records of a results folder, so that they can be kept beside the docs and read on another machine.

    python benchmarks/copy_records.py results/ucm-frozen records/ucm-frozen

Records and splits only: no vectors, no models. Paths below $MARCIR_SHARED get the variable's name instead.
Finished runs only; a record that is there with the same settings stays. `marcir report --results records/NAME
--out DIR` reads them; `marcir benchmark --results COPY` goes on from a copy of the folder.
"""

import argparse
import json
import os
import shutil
from pathlib import Path
from typing import Any

from marcir.experiments.record import Results


def portable(value: Any, shared: str) -> Any:
    """The same settings with the name of the variable in place of its value."""
    if isinstance(value, dict):
        return {key: portable(each, shared) for key, each in value.items()}
    if isinstance(value, str) and shared and value.startswith(shared):
        return "$MARCIR_SHARED" + value[len(shared) :]
    return value


def copy(results: Path, out: Path, shared: str) -> int:
    """Copy what is finished; the number of new records."""
    new = 0
    for record in Results(results).records():
        name = Path("records") / record.study / f"{record.name}.json"
        if not record.done or (out / name).exists():
            continue
        content = json.loads((results / name).read_text("utf-8"))
        content["config"] = portable(content["config"], shared)
        content["config"]["data"]["split"] = f"splits/{record.dataset}.json"
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")
        new += 1
    for split in (results / "splits").glob("*.json"):
        (out / "splits").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(split, out / "splits" / split.name)
    return new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    shared = os.environ.get("MARCIR_SHARED", "")
    print(f"{arguments.out}: {copy(arguments.results, arguments.out, shared)} new records")


if __name__ == "__main__":
    main()
