"""Checkpoints, uploads, remote and external data, preprocessing."""

from tests.advisor.corpus import clean, planted

R = "CKPT.freq"
planted(
    R,
    "in the inner loop",
    """
    for epoch in range(10):
        for x in loader:
            loss = model(x)
            loss.backward()
            torch.save(model.state_dict(), "last.pt")  # <-
    """,
)
planted(
    R,
    "in a function of every step, on one rank",
    """
    def save(step):
        if rank == 0:
            model.save_pretrained(f"out/{step}")  # <-
    for epoch in range(10):
        for step, x in enumerate(loader):
            model(x).loss.backward()
            save(step)
    """,
)
planted(
    R,
    "no step in sight, twice nested",
    """
    for epoch in range(3):
        for batch in loader:
            engine(batch)
            torch.save({"model": model.state_dict()}, "x.pt")  # <-
    """,
)
clean(
    R,
    "once in an epoch",
    """
    for epoch in range(10):
        for x in loader:
            model(x).backward()
        torch.save(model.state_dict(), "last.pt")
    """,
)
clean(
    R,
    "every thousandth step, and by the clock",
    """
    for epoch in range(10):
        for step, x in enumerate(loader):
            model(x).backward()
            if step % 1000 == 0:
                torch.save(model.state_dict(), "last.pt")
            if time.time() - saved_at > 600:
                model.save_pretrained("out")
    """,
)
clean(
    R,
    "pieces of data",
    "for split in splits:\n    for index, piece in enumerate(split):\n        torch.save(piece, f'piece-{index}.pt')",
)
clean(
    R,
    "a function, once in an epoch",
    """
    def train(epoch):
        for x in loader:
            model(x).backward()
    def save():
        torch.save(model.state_dict(), "last.pt")
    for seed in range(3):
        for epoch in range(10):
            train(epoch)
            save()
    """,
)

R = "CKPT.sync"
planted(R, "a bucket", "torch.save(model.state_dict(), 's3://bucket/last.pt')  # <-")
planted(
    R,
    "a mounted folder, joined",
    "import os\nOUT = '/mnt/team'\nmodel.save_pretrained(os.path.join(OUT, name))  # <-",
)
planted(R, "where, is an argument", "torch.save(model.state_dict(), args.output)  # <-", unknown=True)
clean(R, "the node's own disk", "torch.save(model.state_dict(), '/tmp/last.pt')")
clean(R, "a local disk below /mnt", "torch.save(model.state_dict(), '/mnt/local_ssd/last.pt')")
clean(
    R,
    "in a thread",
    "from threading import Thread\nThread(target=copy).start()\ntorch.save(model.state_dict(), '/blob/last.pt')",
)

R = "UPLOAD"
planted(
    R,
    "to a bucket, once in an epoch",
    """
    for epoch in range(3):
        for x in loader:
            model(x).backward()
        s3.upload_file("last.pt", "bucket", "last.pt")  # <-
    """,
)
planted(
    R,
    "a table and a copy",
    """
    import shutil
    for x in loader:
        model(x).backward()
        frame.to_csv("/blob/metrics.csv")  # <-
        shutil.copy("last.pt", "/mnt/team/last.pt")  # <-
    """,
)
clean(R, "after the training", "for x in loader:\n    model(x).backward()\ns3.upload_file('last.pt', 'b', 'k')")
clean(
    R, "handed to a thread", "for x in loader:\n    model(x).backward()\n    pool.submit(s3.upload_file, 'a', 'b', 'c')"
)
clean(R, "a table beside", "for x in loader:\n    model(x).backward()\n    frame.to_csv('metrics.csv')")

R = "REMOTE_READ"
planted(R, "numpy", "import numpy as np\nx = np.load('/mnt/data/x.npy')  # <-")
planted(R, "pandas, by a constant", "import pandas as pd\nROOT = 'gs://data'\nx = pd.read_csv(f'{ROOT}/x.csv')  # <-")
planted(
    R,
    "a dataset's root",
    "from torchvision.datasets import ImageFolder\nd = ImageFolder(root='/lustre/imagenet')  # <-",
)
planted(R, "where, is an argument", "import numpy as np\nx = np.load(args.data)  # <-", unknown=True)
clean(R, "the node's own disk", "import numpy as np\nx = np.load('/tmp/x.npy')")
clean(R, "it is written", "handle = open('/mnt/team/log.txt', 'w')")
clean(
    R,
    "staged by the launch script",
    {
        "train.py": "import torch\nimport numpy as np\nx = np.load('/mnt/data/x.npy')\n",
        "run.sh": "cp -r /mnt/data /tmp/data\npython train.py\n",
    },
)
clean(
    R,
    "staged by the program",
    "import shutil\nimport numpy as np\nshutil.copytree('/mnt/data', '/tmp/data')\nx = np.load('/mnt/data/x.npy')",
)

R = "EXTERNAL"
planted(R, "a model of a hub", "from transformers import AutoModel\nm = AutoModel.from_pretrained('org/name')  # <-")
planted(R, "hub.load", "m = torch.hub.load('pytorch/vision', 'resnet50')  # <-")
planted(R, "an address", "from urllib.request import urlretrieve\nurlretrieve('https://x.org/d.zip', 'd.zip')  # <-")
planted(
    R,
    "in the launch script",
    {"run.sh": "wget https://x.org/data.tar  # <-\npython train.py\n", "train.py": "import torch\n"},
)
planted(R, "which, is an argument", "m = AutoModel.from_pretrained(args.model)  # <-", unknown=True)
clean(R, "a path", "m = AutoModel.from_pretrained('/models/bert')\nn = AutoModel.from_pretrained('./bert')")
clean(R, "kept already", "m = AutoModel.from_pretrained('org/name', local_files_only=True)")
clean(
    R,
    "the launch script says offline",
    {
        "run.sh": "export HF_HUB_OFFLINE=1\npython train.py\n",
        "train.py": "import torch\nm = M.from_pretrained('org/name')\n",
    },
)
clean(
    R, "this machine", {"run.sh": "curl http://localhost:8000/ready\npython train.py\n", "train.py": "import torch\n"}
)

R = "PREPROC"
planted(
    R,
    "images in __getitem__",
    """
    from PIL import Image
    class Pictures:
        def __getitem__(self, index):
            return Image.open(self.paths[index])  # <-
    loader = DataLoader(Pictures(), batch_size=64)
    """,
)
planted(
    R,
    "a table before the training",
    """
    import pandas as pd
    df = pd.read_csv("x.csv")
    df["text"] = df["text"].apply(clean)  # <-
    for x in loader:
        model(x).backward()
    """,
)
planted(
    R,
    "nobody knows with how many workers",
    """
    import cv2
    class Pictures:
        def __getitem__(self, index):
            return cv2.imread(self.paths[index])  # <-
    loader = DataLoader(Pictures(), batch_size=64, num_workers=args.workers)
    """,
    unknown=True,
)
clean(
    R,
    "with workers",
    """
    from PIL import Image
    class Pictures:
        def __getitem__(self, index):
            return Image.open(self.paths[index])
    loader = DataLoader(Pictures(), batch_size=64, num_workers=8)
    """,
)
clean(R, "weights are set", "import pandas as pd\nmodel.apply(weights)\nfor x in loader:\n    model(x).backward()")
clean(
    R, "without GPUs", "import pandas as pd\ndf['a'] = df['a'].apply(f)\nfor x in l:\n    model(x).backward()", gpus=0
)

TF = "import tensorflow as tf\n"
R = "TF"
planted(R, "no prefetch", {"train.py": TF + "d = tf.data.Dataset.from_tensor_slices(x).cache().batch(64)  # <-\n"})
planted(
    R,
    "one after the other",
    {"train.py": TF + "d = tf.data.Dataset.range(9).cache().prefetch(1)\nd = d.map(f)  # <-\n"},
)
clean(
    R,
    "all of it",
    {"train.py": TF + "d = tf.data.Dataset.range(9).map(f, num_parallel_calls=8).cache().batch(64).prefetch(2)\n"},
)
clean(R, "no pipeline", {"train.py": TF + "model.fit(x, y, batch_size=64)\nlist(map(f, x))\n"})

planted(
    "CKPT.sync",
    "to an open file",
    "with open('/mnt/out/x.pt', 'wb') as f:\n    torch.save(model.state_dict(), f)  # <-",
)
planted("REMOTE_READ", "which, says the shell", "import sys\nx = open(sys.argv[1])  # <-", unknown=True)
planted("EXTERNAL", "weights", "from torchvision.models import resnet50\nm = resnet50(pretrained=True)  # <-")
clean("EXTERNAL", "no weights", "from torchvision.models import resnet50\nm = resnet50(pretrained=False)")
