"""Trains a small language model with the Trainer of Hugging Face, with terse for the gradients.

    python3 -m torch.distributed.run -r 1 -t 1 --nproc_per_node=2 examples/hf_trainer.py [SPEC]

The model is made from a config: nothing is downloaded. Needs the package (pip install ./python) and
`pip install transformers accelerate`."""

import sys
import tempfile

import torch
from accelerate import DistributedDataParallelKwargs
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import terse.torch


class TerseTrainer(Trainer):
    """A Trainer whose gradients terse aggregates."""

    def __init__(self, *args, spec="regtopk:keep=0.01", **others):
        self.terse_state = terse.torch.State(spec)
        super().__init__(*args, **others)

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        state = self.terse_state

        class Handler(DistributedDataParallelKwargs):
            def register_comm_hook(self, model):  # called with the DistributedDataParallel
                state.attach(model)

        self.accelerator.ddp_handler = Handler(**vars(self.accelerator.ddp_handler))


def sequences(count, length, words):
    """Every word is followed by the same other word."""
    after = torch.randperm(words, generator=torch.Generator().manual_seed(1))
    tokens = torch.empty(count, length, dtype=torch.long)
    tokens[:, 0] = torch.arange(count) % words
    for at in range(1, length):
        tokens[:, at] = after[tokens[:, at - 1]]
    return [{"input_ids": row, "labels": row} for row in tokens]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=32, n_embd=64, n_layer=2,
                                       n_head=2, bos_token_id=0, eos_token_id=0))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder, use_cpu=True, ddp_backend="gloo", per_device_train_batch_size=16,
            max_steps=200, logging_steps=40, learning_rate=2e-3, lr_scheduler_type="constant",
            save_strategy="no", report_to=[], disable_tqdm=True, seed=1)
        trainer = TerseTrainer(model, settings, train_dataset=sequences(4096, 32, 128),
                               spec=sys.argv[1] if len(sys.argv) > 1 else "regtopk:keep=0.05")
        trainer.train()
    if trainer.is_world_process_zero():
        for entry in trainer.state.log_history:
            if "loss" in entry:
                print("step %3d  loss %.3f" % (entry["step"], float(entry["loss"])), flush=True)
        print(trainer.terse_state.report())
    torch.distributed.barrier()
    trainer.terse_state.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
