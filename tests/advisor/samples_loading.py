"""Loaders, transfers, waits, batches."""

from tests.advisor.corpus import clean, planted

R = "HOST_GPU.workers"
planted(R, "none said", "loader = DataLoader(data, batch_size=64)  # <-")
planted(R, "zero, by a constant", "WORKERS = 0\nloader = DataLoader(data, 64, num_workers=WORKERS)  # <-")
planted(R, "zero, in options", "options = dict(num_workers=0)\nloader = DataLoader(data, 64, **options)  # <-")
planted(R, "from the command line", "loader = DataLoader(data, 64, num_workers=args.workers)  # <-", unknown=True)
planted(R, "options from elsewhere", "loader = DataLoader(data, 64, **options_of(args))  # <-", unknown=True)
clean(R, "eight", "loader = DataLoader(data, batch_size=64, num_workers=8, persistent_workers=True)")
clean(R, "in options", "options = {'num_workers': 4}\nloader = DataLoader(data, 64, **options)")
clean(
    R,
    "from a module of the package",
    {
        "config.py": "WORKERS = 6\n",
        "train.py": """
            import torch
            from torch.utils.data import DataLoader
            from config import WORKERS
            loader = DataLoader(data, 64, num_workers=WORKERS)
        """,
    },
)
clean(R, "a class of its own", "class DataLoader:\n    pass\nfrom mine import DataLoader\nloader = DataLoader(data)")

R = "HOST_GPU.pin"
planted(
    R,
    "missing",
    """
    loader = DataLoader(data, batch_size=64, num_workers=4)  # <-
    for x in loader:
        model(x.to("cuda")).sum().backward()
    """,
)
planted(
    R,
    "off, on a device by name",
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(data, batch_size=64, num_workers=4, pin_memory=False)  # <-
    for x in loader:
        model(x.to(device)).sum().backward()
    """,
)
clean(R, "pinned", "loader = DataLoader(data, 64, num_workers=4, pin_memory=True)\nx = x.to('cuda')")
clean(
    R,
    "nothing goes to a GPU",
    {
        "train.py": """
            import torch
            from torch.utils.data import DataLoader
            device = torch.device("cpu")
            loader = DataLoader(data, 64, num_workers=4)
            x = x.to(device).to(torch.float16)
        """
    },
)

R = "HOST_GPU.block"
planted(
    R,
    "in the loop",
    """
    for x, y in loader:
        x = x.to("cuda")  # <-
        y = y.cuda()  # <-
        loss = model(x, y)
        loss.backward()
    """,
)
planted(
    R,
    "in a function that the loop calls",
    """
    def train_step(batch, device):
        batch = {key: value.to(device) for key, value in batch.items()}  # <-
        loss = model(**batch)
        loss.backward()
    for batch in loader:
        train_step(batch, 0)
    """,
)
clean(R, "non_blocking", "for x in loader:\n    x = x.to('cuda', non_blocking=True)\n    model(x).sum().backward()")
clean(
    R,
    "the model, before; a type, inside",
    """
    model = model.to("cuda")
    for x in loader:
        loss = model(x.to(torch.bfloat16))
        loss.backward()
    """,
)
clean(R, "evaluation", "for x in loader:\n    score(model(x.to('cuda')))")

R = "SYNC"
planted(
    R,
    "item in every step",
    """
    for epoch in range(3):
        for x in loader:
            loss = model(x)
            loss.backward()
            total += loss.item()  # <-
    """,
)
planted(
    R,
    "printed, made a float, waited for",
    """
    for x in loader:
        loss = model(x)
        loss.backward()
        print(f"loss {loss}")  # <-
        history.append(float(loss))  # <-
        torch.cuda.synchronize()  # <-
    """,
)
planted(
    R,
    "to numpy, in a function",
    """
    def one_step(x):
        loss = model(x)
        loss.backward()
        return loss.detach().cpu().numpy()  # <-
    while True:
        one_step(next(batches))
    """,
)
clean(
    R,
    "every hundredth step, and once in an epoch",
    """
    for epoch in range(3):
        for step, x in enumerate(loader):
            loss = model(x)
            loss.backward()
            total += loss.detach()
            if step % 100 == 0:
                print(loss.item())
        print(total.item())
    """,
)
clean(
    R,
    "skipped otherwise",
    """
    for step, x in enumerate(loader):
        loss = model(x)
        loss.backward()
        if step % 50 != 0:
            continue
        print(loss.item())
    """,
)
clean(R, "no training", "for x in loader:\n    scores.append(model(x).item())")
clean(R, "a number is printed", "for step, x in enumerate(loader):\n    model(x).sum().backward()\n    print(step)")

R = "BATCH"
planted(R, "four", "loader = DataLoader(data, batch_size=4, num_workers=4)  # <-")
planted(R, "none said", "loader = DataLoader(data, num_workers=4)  # <-")
planted(R, "computed of constants", "PER_GPU = 2\nloader = DataLoader(data, PER_GPU * 4, num_workers=4)  # <-")
planted(
    R,
    "evaluated with the training's",
    """
    BATCH = 64
    train_loader = DataLoader(train_set, batch_size=BATCH, num_workers=4)
    val_loader = DataLoader(val_set, batch_size=BATCH, num_workers=4)  # <-
    """,
)
planted(R, "from the command line", "loader = DataLoader(data, batch_size=args.batch_size)  # <-", unknown=True)
planted(
    R,
    "arguments of a trainer",
    {"train.py": "from transformers import TrainingArguments as A\na = A(per_device_train_batch_size=2)  # <-\n"},
)
clean(R, "large", "loader = DataLoader(data, batch_size=256)")
clean(R, "at the bound", "loader = DataLoader(data, batch_size=16)")
clean(R, "a sampler batches", "loader = DataLoader(data, batch_sampler=sampler)")
clean(
    R,
    "evaluated with another",
    """
    BATCH, EVAL_BATCH = 64, 256
    SIZE = 64
    LARGER = 256
    train_loader = DataLoader(train_set, batch_size=SIZE)
    val_loader = DataLoader(val_set, batch_size=LARGER)
    """,
)

R = "EXCHANGE"
planted(R, "small on two nodes", "loader = DataLoader(train_set, batch_size=4)  # <-", gpus=16, nodes=2)
planted(
    R,
    "nodes from the launch script",
    {
        "train.py": "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, 8)  # <-\n",
        "run.sh": "torchrun --nnodes=4 --nproc_per_node=8 train.py\n",
    },
    gpus=32,
)
clean(R, "one node", "loader = DataLoader(train_set, batch_size=4)", gpus=8, nodes=1)
clean(R, "accumulates", "with model.no_sync():\n    pass\nloader = DataLoader(train_set, 4)", gpus=16, nodes=2)

clean(
    "SYNC",
    "evaluation now and then, with the function that gives training its batches",
    """
    def batch():
        return next(batches)
    def evaluate():
        for k in range(200):
            losses[k] = model(batch()).item()
    while True:
        if step % 1000 == 0:
            evaluate()
        model(batch()).backward()
    """,
)
