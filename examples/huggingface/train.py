#!/usr/bin/env python3
"""A tiny language model by the Trainer of Hugging Face's transformers; nothing in here needs Lockstep.

The model and its data are made on the spot. torchrun starts the processes, and the Trainer finds out by itself that
there are several. Rank 0 tells the operator how far it is: by itself from transformers 5
on, else if report.py is there.
"""
import argparse
import json
import os
import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

try:
    from report import report_progress
except ImportError:  # it runs without
    def report_progress(**_):
        return False

TOKENS, LENGTH, EXAMPLES = 61, 32, 4096
RANK = int(os.environ.get("RANK", "0"))


def say(**record):
    print(json.dumps({"rank": RANK, **record}), flush=True)


class ReportProgress(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        report_progress(step=state.global_step, total=state.max_steps, epoch=state.epoch, loss=(logs or {}).get("loss"))


class SayProgress(TrainerCallback):
    """For the logs."""
    def on_save(self, args, state, control, **_):
        say(step=state.global_step, saved=True)


class Series(torch.utils.data.Dataset):
    """Series that grow by the same number each time, modulo TOKENS: from the third number on, one knows the next."""
    def __init__(self):
        random = torch.Generator().manual_seed(1)
        first = torch.randint(TOKENS, (EXAMPLES, 1), generator=random)
        by = torch.randint(1, TOKENS, (EXAMPLES, 1), generator=random)
        self.series = (first + by * torch.arange(LENGTH)) % TOKENS

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        return {"input_ids": self.series[index], "labels": self.series[index]}


def make_model():
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=TOKENS, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=LENGTH, bos_token_id=None, eos_token_id=None))


def newest_checkpoint(folder):
    """The last one that is whole: the Trainer writes its own state last."""
    whole = [path.parent for path in folder.glob("checkpoint-*/trainer_state.json")]
    return max(whole, key=lambda path: int(path.name.split("-")[1]), default=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoints", type=pathlib.Path, required=True, help="a folder that all ranks see")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    arguments = parser.parse_args()
    on_cpu = not torch.cuda.is_available()
    settings = TrainingArguments(
        output_dir=str(arguments.checkpoints), max_steps=arguments.steps, per_device_train_batch_size=16,
        learning_rate=3e-3, logging_steps=5, save_steps=arguments.save_every, save_total_limit=2, seed=1,
        use_cpu=on_cpu, ddp_backend="gloo" if on_cpu else None, dataloader_pin_memory=not on_cpu, disable_tqdm=True,
        report_to="none")
    # transformers 5 adds a callback of its own that reports the same, where it finds an operator.
    reports_itself = "kubeflow" in settings.report_to
    trainer = Trainer(
        model=make_model(), train_dataset=Series(), args=settings,
        callbacks=[SayProgress()] if reports_itself else [SayProgress(), ReportProgress()])
    restored = newest_checkpoint(arguments.checkpoints)
    say(world=settings.world_size, pid=os.getpid(), reports_itself=reports_itself,
        restored_step=int(restored.name.split("-")[1]) if restored else 0)
    result = trainer.train(resume_from_checkpoint=str(restored) if restored else None)
    say(steps=result.global_step, loss=round(trainer.state.log_history[-2]["loss"], 4))


if __name__ == "__main__":
    main()
