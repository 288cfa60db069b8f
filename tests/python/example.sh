#!/bin/sh
# examples/torch_ddp.py as its first lines say: two processes, and a loss that falls.
#   example.sh PYTHON SOURCE_FOLDER
set -eu
python="$1" source="$2"
if ! "$python" -c 'import torch.distributed' 2>/dev/null; then
    echo "skip example: torch is not installed (Debian: python3-torch)"
    exit 77
fi
export PYTHONPATH="$source/python" OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
# -r 1 -t 1: torch.distributed.run 1.13 fails with its own defaults on Python 3.11.
said="$(timeout 100 "$python" -m torch.distributed.run -r 1 -t 1 --nproc_per_node=2 \
    --master_port "$((20000 + $$ % 20000))" "$source/examples/torch_ddp.py")"
printf '%s\n' "$said"
printf '%s\n' "$said" | awk '
    / loss / { last = $NF; if (!first) first = last }
    /compression ratio/ { smaller = 1 }
    END { exit !(first > 0 && last < 0.7 * first && smaller) }'
