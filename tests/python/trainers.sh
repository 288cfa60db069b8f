#!/usr/bin/env bash
# The wheel, PyTorch, Lightning, Accelerate and transformers from PyPI in a virtual environment: the
# commands of the examples, as their first lines give them, without the source tree. The loss must
# fall. mypy must find nothing in the package, with the types of all of them. The environment stays
# in the build folder, since it takes minutes to make.
#   trainers.sh PYTHON SOURCE_FOLDER BUILD_FOLDER TORCH_VERSION
set -euo pipefail
python="$1" source="$2" build="$3" version="$4"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
unset TERSE_LIBRARY PYTHONPATH LD_LIBRARY_PATH
export TERSE_PYTHON="$python" OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo

# need command...: the output of the command; a missing index is a reason to skip.
need() {
    local status=0
    "$@" 2>"$folder/why" || status=$?
    if [ "$status" -eq 77 ]; then
        echo "skip trainers: $(tail -n 1 "$folder/why")" >&2
        exit 77
    elif [ "$status" -ne 0 ]; then
        cat "$folder/why" >&2
        exit 1
    fi
}

need "$source/tools/torch-env" "$build/trainers" "$version" lightning accelerate transformers mypy==2.4.1 \
    >"$folder/python"
need "$source/tools/wheel" "$folder/wheel" >"$folder/made"
PATH="$(dirname "$(cat "$folder/python")"):/usr/bin:/bin"
python3 -m pip install --quiet --no-index --no-deps --force-reinstall "$(grep -F .whl "$folder/made")"
cp -r "$source/examples" "$folder"
cd "$folder"
python3 -c 'import accelerate, lightning, torch, transformers
print("torch %s, lightning %s, accelerate %s, transformers %s" % (
    torch.__version__, lightning.__version__, accelerate.__version__, transformers.__version__))'

status=0
# The cache is dropped: it would hold types of an older wheel.
if python3 -m mypy --cache-dir "$folder/types" -p terse >out 2>&1; then
    printf 'ok mypy: %s\n' "$(tail -n 1 out)"
else
    cat out
    printf 'not ok mypy\n'
    status=1
fi
for name in torch_ddp lightning_ddp accelerate_ddp hf_trainer; do
    line="$(sed -n "s#^    \(python3 .*examples/$name.py\) \[SPEC.*\]\$#\1#p" "examples/$name.py")"
    # The launcher's default port may be in use.
    run="${line/--nproc/--master_port=$((20000 + $$ % 20000)) --nproc}"
    if timeout 400 sh -c "$run" >out 2>&1 && awk '
        / loss / { last = $NF; if (!first) first = last }
        /compression ratio/ { report = 1 }
        END { exit !(first > 0 && last < 0.75 * first && report) }' out; then
        grep -E ' loss |compression ratio' out
        printf 'ok %s\n' "$line"
    else
        cat out
        printf 'not ok %s\n' "$line"
        status=1
    fi
done

# The optimizers that do their own communication: one line "ok" for each.
cp "$source/tests/python/trainer_optimizers.py" .
launch="python3 -m torch.distributed.run -r 1 -t 1 --standalone --nproc_per_node=2"
for line in "python3 trainer_optimizers.py lightning" "$launch trainer_optimizers.py accelerate"; do
    if timeout 400 sh -c "$line" >out 2>&1 && [ "$(grep -c 'ok [la]' out)" -eq 4 ]; then
        grep -o 'ok [la].*' out
    else
        cat out
        printf 'not ok %s\n' "$line"
        status=1
    fi
done
exit "$status"
