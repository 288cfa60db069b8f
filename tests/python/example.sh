#!/bin/sh
# Runs the command of examples/torch_ddp.py as its first lines give it, with the default method and
# with a vote; the loss must fall.
#   example.sh PYTHON SOURCE_FOLDER
set -eu
python="${TERSE_TEST_PYTHON:-$1}" source="$2"
if ! "$python" -c 'import torch.distributed' 2>/dev/null; then
    echo "skip example: torch is not installed (Debian: python3-torch)"
    exit 77
fi
"$python" -c 'import sys, torch; print("torch %s" % torch.__version__)'
export PYTHONPATH="$source/python" OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$folder/python3"
chmod +x "$folder/python3"
PATH="$folder:$PATH"
cd "$source"
line="$(sed -n 's/^    \(python3 -m torch.* examples\/torch_ddp.py\) \[SPEC.*\]$/\1/p' examples/torch_ddp.py)"
# The launcher's default port may be in use.
run="$(printf '%s' "$line" | sed "s/--nproc/--master_port=$((20000 + $$ % 20000)) --nproc/")"
for spec in "" signum:beta=0.9; do
    output="$(timeout 150 sh -c "$run $spec")"
    printf '%s\n' "$output"
    if printf '%s\n' "$output" | awk '
        / loss / { last = $NF; if (!first) first = last }
        /compression ratio/ { report = 1 }
        END { exit !(first > 0 && last < 0.7 * first && report) }'; then
        echo "ok $line $spec"
    else
        echo "not ok $line $spec"
        exit 1
    fi
done
