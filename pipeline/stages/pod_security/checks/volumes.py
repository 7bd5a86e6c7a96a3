"""check_restrictedVolumes.go."""

from __future__ import annotations

from .pod import Failure, Json, Pod, listed, named, ordered, plural

ALLOWED = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
# In the order in which the API server asks for them.
_RESTRICTED = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd", "flexVolume",
    "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk",
    "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def restricted_volumes(pod: Pod) -> Failure | None:
    """Volumes may only be of some types."""
    found = [(each["name"], kind) for each in pod.volumes if (kind := _restricted_type(each))]
    if not found:
        return None
    kinds = ordered(kind for _, kind in found)
    uses, what = plural("uses", "use", len(found)), plural("type", "types", len(kinds))
    names = named("volume", [name for name, _ in found])
    return Failure("restricted volume types", f"{names} {uses} restricted volume {what} {listed(kinds)}")


def _restricted_type(volume: Json) -> str:
    """The type of a volume that is not allowed; a volume without a source is an emptyDir."""
    sources = [name for name, source in volume.items() if name != "name" and source is not None]
    if not sources or any(name in ALLOWED for name in sources):
        return ""
    return next((name for name in _RESTRICTED if name in sources), "unknown")
