"""GPUs that are asked for and not used, hidden, or held for nothing; files that can't be read."""

from tests.advisor.corpus import clean, planted

R = "OVERSUB.wrapper"
planted(R, "eight for one", {"train.py": "import torch  # <-\nmodel = torch.nn.Linear(1, 1).cuda()\n"}, gpus=8)
planted(
    R,
    "torchrun alone is none",
    {"train.py": "import torch  # <-\n", "run.sh": "torchrun --nproc_per_node=2 train.py\n"},
    gpus=2,
)
planted(R, "what was not given may do so", {"train.py": "import torch  # <-\nimport ourlab\n"}, gpus=2, unknown=True)
clean(R, "one", {"train.py": "import torch\n"}, gpus=1)
clean(
    R,
    "in a module of the package",
    {
        "train.py": "import torch\nfrom lab.parallel import wrapped\nmodel = wrapped(model)\n",
        "lab/parallel.py": "from torch.nn.parallel import DistributedDataParallel as D\nwrapped = D\n",
    },
    gpus=8,
)
clean(R, "a trainer", {"train.py": "from transformers import Trainer\nTrainer(model=m).train()\n"}, gpus=8)
clean(R, "a strategy", {"train.py": "import tensorflow as tf\ns = tf.distribute.MirroredStrategy()\n"}, gpus=4)
clean(R, "pmap", {"train.py": "import jax\nf = jax.pmap(g)\n"}, gpus=4)

DDP = "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(model)\n"
R = "OVERSUB.nproc"
planted(R, "four of eight", {"train.py": DDP, "run.sh": "torchrun --nproc_per_node=4 train.py  # <-\n"}, gpus=8)
planted(R, "by a variable", {"train.py": DDP, "run.sh": "N=2\ntorchrun --nproc-per-node $N train.py  # <-\n"}, gpus=8)
planted(R, "mpirun", {"train.py": DDP, "run.sh": "mpirun -np 4 python train.py  # <-\n"}, gpus=8)
planted(
    R, "the world", {"train.py": DDP + "torch.distributed.init_process_group('nccl', world_size=4)  # <-\n"}, gpus=8
)
planted(
    R,
    "by the environment",
    {"train.py": DDP, "run.sh": "torchrun --nproc_per_node=$N train.py  # <-\n"},
    gpus=8,
    unknown=True,
)
clean(R, "eight of eight", {"train.py": DDP, "run.sh": "torchrun --nproc_per_node=8 train.py\n"}, gpus=8)
clean(R, "on two nodes", {"train.py": DDP, "run.sh": "torchrun --nnodes=2 \\\n  --nproc_per_node=4 train.py\n"}, gpus=8)
clean(R, "as many as there are", {"train.py": DDP, "run.sh": "torchrun --nproc_per_node=gpu train.py\n"}, gpus=8)
clean(
    R, "in a comment", {"train.py": DDP, "run.sh": "# torchrun --nproc_per_node=4 train.py\npython train.py\n"}, gpus=8
)

R = "API.visible"
planted(R, "empty", {"train.py": DDP, "run.sh": "CUDA_VISIBLE_DEVICES= python train.py  # <-\n"}, gpus=2)
planted(R, "none, in Python", {"train.py": "import os, torch\nos.environ['CUDA_VISIBLE_DEVICES'] = '-1'  # <-\n"})
planted(R, "too few", {"train.py": DDP, "run.sh": "export CUDA_VISIBLE_DEVICES=0,1  # <-\npython train.py\n"}, gpus=4)
planted(R, "which, is an argument", "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = args.gpus  # <-", unknown=True)
clean(R, "all", {"train.py": DDP, "run.sh": "export CUDA_VISIBLE_DEVICES=0,1,2,3\npython train.py\n"}, gpus=4)
clean(R, "no GPU is asked for", {"train.py": "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = ''\n"}, gpus=0)
clean(
    R,
    "side by side",
    {
        "train.py": "import torch\n",
        "run.sh": "CUDA_VISIBLE_DEVICES=0 python train.py &\nCUDA_VISIBLE_DEVICES=1 python train.py &\nwait\n",
    },
    gpus=2,
)

R = "NON_DL"
planted(R, "a table", {"train.py": "import pandas as pd  # <-\npd.read_csv('x.csv').describe()\n"})
planted(R, "plain Python", {"train.py": "import json  # <-\nprint(json.dumps({}))\n"}, gpus=4)
planted(R, "what was not given may do so", {"train.py": "import ourlab  # <-\nourlab.train()\n"}, unknown=True)
clean(R, "torch", {"train.py": "import torch\n"})
clean(R, "cupy", {"train.py": "import cupy\n"})
clean(R, "kernels", {"train.py": "from numba.cuda import jit\n"})
clean(R, "in a module of the package", {"train.py": "import model\n", "model.py": "import jax.numpy as jnp\n"})
clean(R, "no GPU is asked for", {"train.py": "import pandas\n"}, gpus=0)

T = {"train.py": "import torch\n"}
R = "INTERACTIVE"
planted(R, "a notebook", {**T, "run.sh": "jupyter lab --ip 0.0.0.0  # <-\n"})
planted(R, "kept open", {**T, "run.sh": "sudo service ssh start  # <-\ntail -f /dev/null  # <-\n"})
planted(R, "for ever", {**T, "run.sh": "bash -c 'sleep inf'  # <-\n"})
planted(R, "debugging", "import pdb\nanswer = input('go on?')  # <-\npdb.set_trace()  # <-\nbreakpoint()  # <-")
clean(R, "on the pool for it", {**T, "run.sh": "jupyter lab\n"}, is_interactive_pool=True)
clean(R, "a log is followed", {**T, "run.sh": "echo 'jupyter sshd tmux'\ntail -n 5 log.txt\npython train.py\n"})
clean(R, "others that are called so", "x = model.input(1)\nfrom mine import embed\nembed(x)\nscreen = 1")

R = "UNRELEASED"
planted(R, "ten minutes at the end", "import time\nfor x in loader:\n    model(x).backward()\ntime.sleep(600)  # <-")
planted(R, "for ever at the end", "import time\nmain()\nwhile True:\n    time.sleep(3600)  # <-")
planted(R, "an hour", {**T, "run.sh": "python train.py\nsleep 1h  # <-\n"})
planted(R, "a loop of nothing", {**T, "run.sh": "python train.py\nwhile true; do  # <-\n  sleep 60\ndone\n"})
clean(R, "five seconds", "import time\nfor x in loader:\n    model(x).backward()\ntime.sleep(5)")
clean(R, "before the work", "import time\ntime.sleep(600)\nfor x in loader:\n    model(x).backward()")
clean(R, "tries again", "import time\nwhile True:\n    if fetch():\n        break\n    time.sleep(300)")
clean(R, "a loop that works", {**T, "run.sh": "while true; do\n  python train.py && break\n  sleep 60\ndone\n"})

R = "INSTALL"
planted(R, "pip", {**T, "run.sh": "pip install -r requirements.txt  # <-\npython train.py\n"})
planted(
    R,
    "several",
    {**T, "run.sh": "apt-get -y install git && python3 -m pip install x  # <-\nmake -j8  # <-\ntorchrun train.py\n"},
)
planted(R, "by the program", "import os\nos.system('pip install apex')  # <-")
clean(R, "after", {**T, "run.sh": "python train.py\npip install report\n"})
clean(R, "listed only", {**T, "run.sh": "pip list\nconda activate lab\npython train.py  # pip install x\n"})
planted(R, "in a shell of its own", {**T, "run.sh": "(cd x && git clone https://x.org/y)  # <-\npython train.py\n"})
planted(R, "in a function", {**T, "run.sh": "f() { pip install x; }  # <-\nf\npython train.py\n"})
clean(R, "in a document", {**T, "run.sh": "cat <<END\npip install x\nEND\npython train.py\n"})

R = "READ"
planted(R, "an error", {"train.py": "import torch\ndef f(:  # <-\n"}, unknown=True)
planted(R, "Python 2", {"train.py": "import torch\nprint 'hello'  # <-\n"}, unknown=True)
planted(R, "it starts what was not given", {"run.sh": "python train.py  # <-\n"}, unknown=True)
clean(R, "all was read", {"train.py": "import torch\n", "run.sh": "python train.py\n"})
clean(R, "an empty file", {"train.py": "import torch\n", "lab/__init__.py": ""})

planted("UNRELEASED", "minute by minute, for ever", "import time\nmain()\nwhile True:\n    time.sleep(60)  # <-")
planted("UNRELEASED", "the same in a shell", {**T, "run.sh": "while [ 1 ]; do  # <-\n  sleep 9\ndone\n"})
planted("UNRELEASED", "and so", {**T, "run.sh": "while ((1)); do  # <-\n  sleep 9\ndone\n"})
