"""Five projects as users of Lightning write them; run under either library, their curves are compared.

``python tests/compat/five.py curves.json [name ...]`` writes what each logged, step by step. It imports
nothing of drivetrain: Lightning itself made data/curves.json with it (scripts/compare-lightning), under the
mirror test_five.py runs it. Data come in a fixed order, and noise from generators of its own, since the order
in which a library draws random numbers is its own affair.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import lightning as L  # noqa: N812 - as its users write it
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def batches(*tensors: torch.Tensor, size: int = 8) -> DataLoader:
    return DataLoader(TensorDataset(*tensors), batch_size=size, shuffle=False)


# --- 1: a GAN, two optimizers by hand ------------------------------------------------------------------


class GAN(L.LightningModule):
    def __init__(self, latent: int = 4, lr: float = 2e-3, betas: tuple = (0.5, 0.999)) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(latent, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.generator(z)

    def adversarial_loss(self, logits: torch.Tensor, is_real: bool) -> torch.Tensor:
        target = torch.full_like(logits, float(is_real))
        return functional.binary_cross_entropy_with_logits(logits, target)

    def training_step(self, batch: Any, batch_idx: int) -> None:
        (real,) = batch
        optimizer_g, optimizer_d = self.optimizers()
        z = drawn(1000 * self.current_epoch + batch_idx, len(real), self.hparams.latent).type_as(real)

        self.toggle_optimizer(optimizer_g)
        g_loss = self.adversarial_loss(self.discriminator(self(z)), True)
        optimizer_g.zero_grad()
        self.manual_backward(g_loss)
        self.clip_gradients(optimizer_g, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
        optimizer_g.step()
        self.untoggle_optimizer(optimizer_g)

        self.toggle_optimizer(optimizer_d)
        real_loss = self.adversarial_loss(self.discriminator(real), True)
        fake_loss = self.adversarial_loss(self.discriminator(self(z).detach()), False)
        d_loss = (real_loss + fake_loss) / 2
        optimizer_d.zero_grad()
        self.manual_backward(d_loss)
        optimizer_d.step()
        self.untoggle_optimizer(optimizer_d)

        self.log_dict({"g_loss": g_loss, "d_loss": d_loss}, prog_bar=True)
        self.log("steps", float(self.global_step))

    def on_train_epoch_end(self) -> None:
        for scheduler in self.lr_schedulers():
            scheduler.step()

    def configure_optimizers(self) -> Any:
        lr, betas = self.hparams.lr, self.hparams.betas
        optimizer_g = torch.optim.Adam(self.generator.parameters(), lr=lr, betas=betas)
        optimizer_d = torch.optim.Adam(self.discriminator.parameters(), lr=lr, betas=betas)
        falls = [torch.optim.lr_scheduler.StepLR(one, 1, gamma=0.9) for one in (optimizer_g, optimizer_d)]
        return [optimizer_g, optimizer_d], falls


def gan(folder: Path) -> Any:
    angle = drawn(1, 96, 1) * 3
    points = torch.cat([angle.cos(), angle.sin()], 1) + 0.05 * drawn(2, 96, 2)
    model = GAN()
    trainer = made(folder, max_epochs=3, callbacks=[ModelCheckpoint(every_n_train_steps=10, save_top_k=-1)])
    trainer.fit(model, batches(points))
    return trainer, model


# --- 2: a VAE, with a plateau scheduler, the best checkpoint, early stopping ---------------------------


class VAE(L.LightningModule):
    def __init__(self, num_features: int = 12, latent: int = 3, beta: float = 0.1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(num_features, 16), nn.ReLU())
        self.mean, self.log_var = nn.Linear(16, latent), nn.Linear(16, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, num_features))

    def losses(self, batch: Any, seed: int) -> dict[str, torch.Tensor]:
        (x,) = batch
        hidden = self.encoder(x)
        mean, log_var = self.mean(hidden), self.log_var(hidden)
        noise = drawn(seed, *mean.shape).type_as(mean)
        found = self.decoder(mean + noise * (0.5 * log_var).exp())
        reconstruction = functional.mse_loss(found, x)
        kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
        loss = reconstruction + self.hparams.beta * kl
        return {"loss": loss, "reconstruction": reconstruction.detach(), "kl": kl.detach()}

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        losses = self.losses(batch, 5000 + self.global_step)
        self.log_dict({f"train_{name}": value for name, value in losses.items()}, on_step=True, on_epoch=True)
        return losses

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        losses = self.losses(batch, batch_idx)
        self.log_dict({f"val_{name}": value for name, value in losses.items()}, prog_bar=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.02)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss", "interval": "epoch"},
        }


class Rate(Callback):
    """Logs the learning rate, as many write it themselves."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        pl_module.log("lr", trainer.optimizers[0].param_groups[0]["lr"], on_step=True, on_epoch=False)


def vae(folder: Path) -> Any:
    features = drawn(3, 60, 4) @ drawn(4, 4, 12)
    model = VAE()
    best = ModelCheckpoint(
        monitor="val_loss", filename="{epoch}-{val_loss:.3f}", save_top_k=2, save_last=True
    )
    stops = EarlyStopping("val_loss", patience=2, min_delta=0.02)
    trainer = made(folder, max_epochs=12, callbacks=[best, stops, Rate()])
    trainer.fit(model, batches(features[:45]), batches(features[45:]))
    return trainer, model


# --- 3: a transformer language model: warm-up, accumulation, clipping, validation within epochs --------


class LanguageModel(L.LightningModule):
    def __init__(self, vocabulary: int = 11, width: int = 16, context: int = 8) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(context, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.example_input_array = torch.zeros(1, context, dtype=torch.long)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        x = self.embedding(tokens) + self.position[:length]
        return self.head(self.blocks(x, mask=mask, is_causal=True))

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self.loss(batch[0])
        self.log("train_loss", loss, prog_bar=True)
        self.log("lr", self.lr_schedulers().get_last_lr()[0])
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        loss = self.loss(batch[0])
        self.log("val_loss", loss)
        self.log("val_perplexity", loss.exp(), reduce_fx="max")

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        norms = [one.grad.norm() for one in self.parameters() if one.grad is not None]
        self.log("grad_norm", torch.stack(norms).norm())

    def configure_optimizers(self) -> Any:
        decayed = [one for one in self.parameters() if one.ndim > 1]
        others = [one for one in self.parameters() if one.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
        total = int(self.trainer.estimated_stepping_batches)

        def rate(step: int) -> float:
            return min((step + 1) / 4, max(0.0, (total - step) / total))

        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def language_model(folder: Path) -> Any:
    start = torch.arange(96)[:, None] % 11
    tokens = (start + torch.arange(9)[None] * (1 + start % 3)) % 11
    model = LanguageModel()
    trainer = made(
        folder,
        max_epochs=2,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        val_check_interval=0.5,
        num_sanity_val_steps=2,
        log_every_n_steps=2,
    )
    trainer.fit(model, batches(tokens[:64], size=4), batches(tokens[64:]))
    return trainer, model


# --- 4: contrastive learning, with a momentum encoder and a queue buffer -------------------------------


class Contrastive(L.LightningModule):
    def __init__(
        self, width: int = 8, queue_size: int = 24, momentum: float = 0.9, heat: float = 0.2
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.query = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, width))
        self.key = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, width))
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", functional.normalize(drawn(9, width, queue_size), dim=0))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))
        self.accuracy = MulticlassAccuracy(3)
        self.probe = nn.Linear(width, 3)

    @torch.no_grad()
    def update_keys(self) -> None:
        for query, key in zip(self.query.parameters(), self.key.parameters(), strict=True):
            key.mul_(self.hparams.momentum).add_(query, alpha=1 - self.hparams.momentum)

    @torch.no_grad()
    def enqueue(self, keys: torch.Tensor) -> None:
        keys = self.all_gather(keys).flatten(0, -2)
        at = int(self.pointer)
        self.queue[:, at : at + len(keys)] = keys.T
        self.pointer[0] = (at + len(keys)) % self.hparams.queue_size

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        first, second, label = batch
        queries = functional.normalize(self.query(first), dim=1)
        with torch.no_grad():
            self.update_keys()
            keys = functional.normalize(self.key(second), dim=1)
        positive = (queries * keys).sum(1, keepdim=True)
        logits = torch.cat([positive, queries @ self.queue.clone()], 1) / self.hparams.heat
        contrast = functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))
        probed = functional.cross_entropy(self.probe(queries.detach()), label)
        self.enqueue(keys)
        self.log("contrast", contrast, on_step=True, on_epoch=True)
        self.log("top1", (logits.argmax(1) == 0).double().mean(), prog_bar=True)
        return contrast + probed

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        first, _, label = batch
        self.accuracy(self.probe(functional.normalize(self.query(first), dim=1)), label)
        self.log("accuracy", self.accuracy, on_step=False, on_epoch=True, add_dataloader_idx=False)

    def on_validation_epoch_end(self) -> None:
        self.log("queue_norm", self.queue.norm())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4),
        }


def contrastive(folder: Path) -> Any:
    label = torch.arange(84) % 3
    x = drawn(5, 3, 10)[label] + 0.3 * drawn(6, 84, 10)
    pairs = (x + 0.1 * drawn(7, 84, 10), x + 0.1 * drawn(8, 84, 10), label)
    model = Contrastive()
    trainer = made(folder, max_epochs=4, check_val_every_n_epoch=2, log_every_n_steps=3)
    trainer.fit(model, batches(*(one[:64] for one in pairs)), batches(*(one[64:] for one in pairs)))
    return trainer, model


# --- 5: finetuning: a backbone from a checkpoint, frozen first; test, predict, resume ------------------


class Backbone(L.LightningModule):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.head = nn.Linear(width, 1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = functional.mse_loss(self.head(self.body(batch[0]))[:, 0], batch[1])
        self.log("pretrain_loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.RMSprop(self.parameters(), lr=0.005)


class Classifier(L.LightningModule):
    def __init__(self, checkpoint: str, lr: float = 0.05) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.backbone = Backbone.load_from_checkpoint(checkpoint).body
        self.head = nn.Linear(12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))

    def shared_step(self, batch: Any, kind: str) -> torch.Tensor:
        logits = self(batch[0])
        loss = functional.cross_entropy(logits, batch[1])
        self.log(f"{kind}_loss", loss, on_step=kind == "train", on_epoch=True)
        self.log(
            f"{kind}_accuracy", (logits.argmax(1) == batch[1]).float().mean(), on_step=False, on_epoch=True
        )
        return loss

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.shared_step(batch, "train")

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.shared_step(batch, "val")

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.shared_step(batch, "test")

    def predict_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self(batch[0]).softmax(1)

    def configure_optimizers(self) -> Any:
        trained = [one for one in self.parameters() if one.requires_grad]
        return torch.optim.SGD(trained, lr=self.hparams.lr, momentum=0.8)


class Unfreeze(Callback):
    """The backbone joins at an epoch, with a tenth of the rate."""

    def __init__(self, at_epoch: int) -> None:
        self.at_epoch = at_epoch

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            pl_module.backbone.requires_grad_(False)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch == self.at_epoch:
            pl_module.backbone.requires_grad_(True)
            group = {"params": [*pl_module.backbone.parameters()], "lr": 0.1 * pl_module.hparams.lr}
            trainer.optimizers[0].add_param_group(group)


class Labelled(L.LightningDataModule):
    def __init__(self, batch_size: int = 8) -> None:
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        x = drawn(11, 72, 6)
        self.data = (x, ((x.sum(1) + x[:, 0] * x[:, 1]) > 0).long())

    def loader(self, first: int, end: int) -> DataLoader:
        return batches(*(one[first:end] for one in self.data), size=self.hparams.batch_size)

    def train_dataloader(self) -> DataLoader:
        return self.loader(0, 44)

    def val_dataloader(self) -> DataLoader:
        return self.loader(44, 60)

    def test_dataloader(self) -> DataLoader:
        return self.loader(60, 72)

    predict_dataloader = test_dataloader


def finetuning(folder: Path) -> Any:
    x = drawn(10, 48, 6)
    backbone = Backbone()
    pretrain = made(folder / "pretrain", max_epochs=3, enable_checkpointing=False)
    pretrain.fit(backbone, batches(x, x.sum(1).sin()))
    pretrain.save_checkpoint(folder / "backbone.ckpt")

    L.seed_everything(8, verbose=False)
    model, data = Classifier(str(folder / "backbone.ckpt")), Labelled()
    best = ModelCheckpoint(monitor="val_accuracy", mode="max", filename="{epoch}")
    trainer = made(folder, max_epochs=4, callbacks=[Unfreeze(2), best])
    trainer.fit(model, datamodule=data)
    found = {
        "test": trainer.test(model, datamodule=data, verbose=False),
        "test_best": trainer.test(ckpt_path="best", datamodule=data, verbose=False),
        "predicted": torch.cat(trainer.predict(model, data)).flatten().tolist(),
        "pretrain": logged(pretrain),
        "hparams": sorted(model.hparams),
    }
    found["scores"] = {Path(path).name: float(score) for path, score in best.best_k_models.items()}
    return trainer, model, found


# ----------------------------------------------------------------------------------------------------


PROJECTS = {
    "gan": gan,
    "vae": vae,
    "language_model": language_model,
    "contrastive": contrastive,
    "finetuning": finetuning,
}


def made(folder: Path, **kwargs: Any) -> Any:
    return L.Trainer(
        **{
            "accelerator": "cpu",
            "devices": 1,
            "logger": CSVLogger(folder, name=""),
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "default_root_dir": folder,
            **kwargs,
        }
    )


def logged(trainer: Any) -> dict[str, list[list[float]]]:
    """Return what was written: of each name, the steps, the epochs and the values."""
    curves: dict[str, list[list[float]]] = {}
    with (Path(trainer.logger.log_dir) / "metrics.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name, text in row.items():
                if text and name not in ("step", "epoch"):
                    point = [int(row["step"]), int(float(row["epoch"] or 0)), float(text)]
                    curves.setdefault(name, []).append(point)
    return dict(sorted(curves.items()))


def numbers(values: Any) -> dict[str, float]:
    return {name: float(value) for name, value in sorted(values.items())}


def run(name: str) -> dict[str, Any]:
    """Run a project and return what is compared."""
    L.seed_everything(7, verbose=False)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(place)
        trainer, model, *more = PROJECTS[name](folder)
        weights = torch.cat([one.detach().flatten().double() for one in model.parameters()])
        saved = Path(trainer.logger.log_dir) / "checkpoints"
        return {
            "curves": logged(trainer),
            "callback_metrics": numbers(trainer.callback_metrics),
            "logged_metrics": numbers(trainer.logged_metrics),
            "progress_bar_metrics": numbers(trainer.progress_bar_metrics),
            "steps": trainer.global_step,
            "epochs": trainer.current_epoch,
            "checkpoints": sorted(one.name for one in saved.glob("*.ckpt")),
            "best": Path(trainer.checkpoint_callback.best_model_path).name,
            "weights": [float(weights.sum()), float(weights.norm())],
            **(more[0] if more else {}),
        }


def main() -> None:
    found = {name: run(name) for name in sys.argv[2:] or PROJECTS}
    lines = [f"{json.dumps(name)}: {json.dumps(kept)}" for name, kept in found.items()]
    Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
