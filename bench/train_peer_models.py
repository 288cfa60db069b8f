"""The models of `terse train` as PyTorch modules, with the same names, shapes and order of
parameters, so that either can load the weights of the other."""

import torch
from torch import nn
import torch.nn.functional as F


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.linear(x.flatten(1))


class MLP(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc1 = nn.Linear(inputs, 4096)
        self.fc2 = nn.Linear(4096, 2048)
        self.fc3 = nn.Linear(2048, outputs)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class CNN(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        channels, height, width = shape
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 64)
        self.fc2 = nn.Linear(64, outputs)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


VGG = {"vgg11": (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0),
       "vgg16": (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)}


class Vgg(nn.Module):
    def __init__(self, name, shape, outputs):
        super().__init__()
        channels, height, width = shape
        layers = []
        for size in VGG[name]:
            if size == 0:
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, size, 3, padding=1, bias=False),
                           nn.BatchNorm2d(size), nn.ReLU(inplace=True)]
                channels = size
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512 * (height // 32) * (width // 32), outputs)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        beside = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.bn2(self.conv2(x))
        x += beside
        return F.relu(x, inplace=True)


class ResNet(nn.Module):
    def __init__(self, shape, outputs, widths, blocks):
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        inputs = widths[0]
        self.depth = len(widths)
        for i, width in enumerate(widths):
            layers = []
            for j in range(blocks):
                layers.append(Block(inputs, width, 2 if i > 0 and j == 0 else 1))
                inputs = width
            setattr(self, "layer%d" % (i + 1), nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        for i in range(self.depth):
            x = getattr(self, "layer%d" % (i + 1))(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class TextBag(nn.Module):
    def __init__(self, vocabulary, outputs):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, 64, mode="mean")
        self.fc1 = nn.Linear(64, 128)
        self.fc2 = nn.Linear(128, outputs)

    def forward(self, text):
        tokens, lengths = text
        flat = torch.cat([row[:n] for row, n in zip(tokens, lengths)])
        offsets = torch.cumsum(lengths, 0) - lengths
        return self.fc2(F.relu(self.fc1(self.embedding(flat, offsets))))


class BiLstm(nn.Module):
    def __init__(self, vocabulary, outputs):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 64)
        self.lstm = nn.LSTM(64, 64, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(128, outputs)

    def forward(self, text):
        tokens, lengths = text
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(tokens), lengths,
                                                   batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.fc(states.sum(1) / lengths.unsqueeze(1).to(states.dtype))


def build(name, shape, outputs, vocabulary=0):
    """The model `name`; `shape` is that of one example: (length,) or (channels, height, width)."""
    inputs = 1
    for side in shape:
        inputs *= side
    if name in ("linear", "logistic"):
        return Linear(inputs, outputs)
    if name == "mlp":
        return MLP(inputs, outputs)
    if name == "cnn":
        return CNN(shape, outputs)
    if name in VGG:
        return Vgg(name, shape, outputs)
    if name == "resnet20":
        return ResNet(shape, outputs, (16, 32, 64), 3)
    if name == "resnet18":
        return ResNet(shape, outputs, (64, 128, 256, 512), 2)
    if name == "textbag":
        return TextBag(vocabulary, outputs)
    if name == "bilstm":
        return BiLstm(vocabulary, outputs)
    raise ValueError("no model '%s'" % name)
