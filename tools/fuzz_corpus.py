"""Converts the corpus of a fuzz target into files and back; see `fuzz/README.md`."""

import hashlib
import sys
from pathlib import Path

TARGETS = ("codecs", "dcf", "network", "recording", "scripts", "sockets")


def main(do: str, target: str, folder: Path) -> None:
    """Writes one file per line of `fuzz/corpus/TARGET.txt`, or one line per file."""
    lines = Path(__file__).parents[1] / "fuzz/corpus" / f"{target}.txt"
    if do == "unpack":
        folder.mkdir(parents=True, exist_ok=True)
        for line in lines.read_text().split():
            data = bytes.fromhex(line)
            (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    else:
        found = sorted({path.read_bytes() for path in folder.iterdir()}, key=lambda b: (len(b), b))
        lines.parent.mkdir(exist_ok=True)
        lines.write_text("".join(f"{data.hex()}\n" for data in found if data))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("unpack", "pack") or sys.argv[2] not in TARGETS:
        sys.exit(f"usage: fuzz_corpus.py unpack|pack {'|'.join(TARGETS)} FOLDER")
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
