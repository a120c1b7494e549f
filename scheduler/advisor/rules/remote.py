"""Data that comes from afar while GPUs wait."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.package import Package
from scheduler.advisor.shell import Command
from scheduler.advisor.syntax import Call, Module
from scheduler.advisor.values import Text, argument, text_of, value_of, written

REMOTE = re.compile(
    r"(?:s3a?|gs|gcs|abfss?|hdfs|wasbs?|az|oss|cos|adl|viewfs)://|/(?:mnt|blob|nfs|lustre|gpfs|dbfs)(?:/|$)"
)
LOCAL_DISK = re.compile(r"/(?:\w*local\w*|\w*ssd\w*|nvme\w*|scratch\w*|ramdisk)(?:/|$)")
READERS = frozenset(
    {
        "open",
        "GFile",
        "imread",
        "memmap",
        "fromfile",
        "loadtxt",
        "genfromtxt",
        "TFRecordDataset",
        "ImageFolder",
        "DatasetFolder",
        "load_from_disk",
        "File",
    }
)
READER_NAMES = frozenset(
    {
        "numpy.load",
        "torch.load",
        "PIL.Image.open",
        "pickle.load",
        "joblib.load",
        "librosa.load",
    }
)
COPYING = frozenset(
    {
        "cp",
        "rsync",
        "azcopy",
        "rclone",
        "gsutil",
        "scp",
        "s5cmd",
        "fpsync",
        "distcp",
    }
)
SHUTIL = frozenset(
    {
        "copy",
        "copy2",
        "copyfile",
        "copytree",
    }
)
DOWNLOADS = frozenset(
    {
        "urlretrieve",
        "hf_hub_download",
        "snapshot_download",
        "load_state_dict_from_url",
        "download_url",
        "download_and_extract_archive",
        "cached_download",
    }
)
OFFLINE = frozenset(
    {
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_DATASETS_OFFLINE",
    }
)
CACHES = frozenset(
    {"HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME", "HUGGINGFACE_HUB_CACHE"}
)
MODEL_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?$")
MAX_PATH_CHARS = 300
HUBS = ("torchvision.", "torchaudio.", "torchtext.", "timm.")
NEAR_HOSTS = ("localhost", "127.", "169.254.", "[::1]")


def is_remote(path: str) -> bool:
    """Storage behind a network, by how its path begins."""
    path = path[:MAX_PATH_CHARS]
    return bool(REMOTE.match(path)) and not (path.startswith("/") and LOCAL_DISK.search(path))


def _is_reader(call: Call) -> bool:
    if call.name in READER_NAMES or call.last.startswith("read_") or call.last.endswith("Dataset"):
        return True
    if call.last == "open" and call.receiver is None:
        mode = call.keyword("mode", 1)
        return not (isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wax"))
    return call.last in READERS and call.last != "open" and (call.last != "File" or call.name == "h5py.File")


def _root(package: Package, call: Call) -> tuple[Text, ast.expr | None]:
    """The path that a reader is given: its first argument that begins like one, else the first."""
    names = ("root", "root_dir", "data_dir", "path", "filename", "file", "data_path", "filenames", "filepath_or_buffer")
    given = [*call.node.args[:3], *(each.value for each in call.node.keywords if each.arg in names)]
    for node in given:
        text = text_of(package, call.module, node)
        if is_remote(text.start):
            return text, node
    first = given[0] if given else None
    return text_of(package, call.module, first), first


def _is_staged(package: Package) -> bool:
    """Something is copied to where the work runs before it begins."""
    for call in package.calls(*sorted(SHUTIL)):
        source = text_of(package, call.module, call.keyword("src", 0))
        target = text_of(package, call.module, call.keyword("dst", 1))
        if (
            call.name.startswith("shutil.")
            and not is_remote(target.start)
            and (is_remote(source.start) or not source.is_whole)
        ):
            return True
    copies = [command for script in package.scripts for command in script.before_launch()]
    copies += [command for _, _, command, script in package.commands if script is None]
    return any(_stages(command) for command in copies)


def _stages(command: Command) -> bool:
    words = command.words
    if command.program in ("aws", "hdfs", "hadoop", "az", "mc", "gcloud"):
        is_copy = bool({"cp", "sync", "-get", "-copyToLocal", "download-batch", "mirror"} & set(words))
    else:
        is_copy = command.program in COPYING
    return is_copy and len(words) > 2 and not is_remote(words[-1])


@rule(
    "REMOTE_READ",
    Severity.WARN,
    pattern="`open`, `np.load`, `pd.read_*` or a dataset on remote storage, and no copy to the node's disk before",
    fix="Copy the data to the node's own SSD before the training begins, and read it there.",
    effect="Reading remote data: 18 of 706 issues (2.55%).",
)
def remote_read(package: Package) -> Iterator[Spot]:
    """Reads over the network, one by one."""
    if _is_staged(package):
        return
    unknown: set[tuple[str, str]] = set()
    for module in package.modules:
        for call in module.calls:
            if not _is_reader(call):
                continue
            text, node = _root(package, call)
            if is_remote(text.start):
                yield Spot(module.path, call.line, f"It reads from {text.start[:60]}, over the network.")
            elif _is_given(module, node) and (module.path, written(node)) not in unknown:
                unknown.add((module.path, written(node)))
                what = f"Where it reads from is {written(node)}: known at run time only."
                yield Spot(module.path, call.line, what, is_unknown=True)


def _is_given(module: Module, node: ast.expr | None) -> bool:
    """A value of the command line, the environment or a configuration: `args.data`, `cfg.root`, `sys.argv[1]`."""
    asked = node.value if isinstance(node, ast.Subscript) else node.func if isinstance(node, ast.Call) else None
    if asked is not None and module.named(asked) in ("sys.argv", "os.environ", "os.environ.get", "os.getenv"):
        return True
    name = written(node)
    return (
        name.partition(".")[0].lower() in ("args", "opt", "opts", "cfg", "config", "conf", "hparams", "flags")
        and "." in name
    )


def _is_offline(package: Package) -> bool:
    """A switch or a cache path, in a launch script or in the program, keeps it from the network."""
    for script in package.scripts:
        for command in script.commands:
            for name, value in command.settings.items():
                if (name in OFFLINE and value not in ("", "0")) or (name in CACHES and value):
                    return True
    for module in package.modules:
        for node, _ in module.assignments:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                key = target.slice if isinstance(target, ast.Subscript) else None
                if isinstance(key, ast.Constant) and key.value in OFFLINE | CACHES:
                    return True
    return False


@rule(
    "EXTERNAL",
    Severity.WARN,
    pattern='`from_pretrained("org/name")`, `load_dataset`, `hub.load`, `urlretrieve`, '
    "`download=True`, wget, curl or `git clone` "
    "at run time, with no offline switch and no cache path",
    fix="Download once before the submission, to a path that all runs share; set HF_HUB_OFFLINE=1.",
    effect="Use of external data: 18 of 706 issues (2.55%).",
)
def external(package: Package) -> Iterator[Spot]:
    """Downloads while GPUs are held."""
    is_offline = _is_offline(package)
    for call in package.calls("from_pretrained", "load_dataset", "load", "get", "download", *sorted(DOWNLOADS)):
        spot = _download(package, call, is_offline)
        if spot is not None:
            yield spot
    for call in (call for module in package.modules for call in module.calls):
        if call.name.startswith(HUBS) and any(
            argument(package, call, each) is True for each in ("download", "pretrained")
        ):
            yield Spot(call.module.path, call.line, "It downloads what is not there yet.")
    for path, line, command, _ in package.commands:
        if _fetches(command):
            yield Spot(path, line, f"{command.program} fetches from elsewhere while GPUs are held.")


def _download(package: Package, call: Call, is_offline: bool) -> Spot | None:
    """A finding about one call that may download."""

    def spot(what: str, is_unknown: bool = False) -> Spot:
        return Spot(call.module.path, call.line, what, is_unknown)

    if call.last in DOWNLOADS or call.name == "wget.download" or call.name == "gdown.download":
        is_kept = call.keyword("local_files_only") is not None or call.keyword("cache_dir") is not None
        is_hub = call.last in ("hf_hub_download", "snapshot_download")
        return None if is_hub and (is_offline or is_kept) else spot(f"{call.last} downloads while GPUs are held.")
    if call.last in ("get", "download"):
        address = text_of(package, call.module, call.keyword("url", 0)).start
        is_far = address.startswith(("http://", "https://")) and not address.partition("://")[2].startswith(NEAR_HOSTS)
        return (
            spot("It fetches over the network while GPUs are held.")
            if is_far and call.name.startswith("requests.")
            else None
        )
    if call.last == "load" and call.name != "torch.hub.load":
        return None
    return None if is_offline or _is_kept(package, call) else _from_hub(package, call)


def _is_kept(package: Package, call: Call) -> bool:
    if argument(package, call, "local_files_only") is True or argument(package, call, "source") == "local":
        return True
    return call.keyword("cache_dir") is not None


def _from_hub(package: Package, call: Call) -> Spot | None:
    """By the name of a model or data set; a path is none."""
    node = call.keyword("pretrained_model_name_or_path") or call.keyword("path", 0)
    name = value_of(package, call.module, node)
    if isinstance(name, str):
        is_name = bool(MODEL_ID.match(name)) and not name.startswith((".", "/", "~"))
        is_file = call.last == "load_dataset" and name in (
            "json",
            "csv",
            "parquet",
            "text",
            "arrow",
            "imagefolder",
            "webdataset",
        )
        if is_name and not is_file:
            return Spot(call.module.path, call.line, f"{name} is downloaded while GPUs are held.")
        return None
    if text_of(package, call.module, node).start or node is None:
        return None
    return Spot(
        call.module.path, call.line, f"What it loads is {written(node)}: known at run time only.", is_unknown=True
    )


def _fetches(command: Command) -> bool:
    words = command.words
    if command.program in ("wget", "curl", "aria2c"):
        return any("://" in each and not each.partition("://")[2].startswith(NEAR_HOSTS) for each in words) or any(
            "$" in each for each in words[1:]
        )
    if command.program == "git":
        return "clone" in words
    return command.program in ("huggingface-cli", "hf", "kaggle", "gdown") and (
        "download" in words or command.program == "gdown"
    )
