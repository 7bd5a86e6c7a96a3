# Runs a command as the container of the StatefulSet would: its own root, read-only, with the Pod's volumes, as the Pod's user.
# To be run in a mount namespace of its own: unshare --mount sh container.sh ROOT VOLUMES USER NEEDED... -- COMMAND...
# VOLUMES is a folder with one folder for each mounted path; NEEDED are folders that the program itself needs, read-only.
set -eu
root=$1 volumes=$2 user=$3
shift 3
mount -t tmpfs container "$root"
for each in bin lib lib32 lib64 sbin usr; do
    if [ -L "/$each" ]; then ln -s "$(readlink "/$each")" "$root/$each"
    elif [ -d "/$each" ]; then mkdir "$root/$each"; mount --rbind "/$each" "$root/$each"; mount -o remount,ro,bind "$root/$each"; fi
done
mkdir "$root/proc" "$root/dev" "$root/etc"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
cp -a /etc/ld.so.cache "$root/etc/"
(cd "$volumes" && find . -mindepth 1 -name .volume) | while read -r mark; do
    place=$(dirname "${mark#./}")
    mkdir -p "$root/$place"
    mount --bind "$volumes/$place" "$root/$place"
done
while [ "$1" != "--" ]; do
    mkdir -p "$root$1"
    mount --bind "$1" "$root$1"
    mount -o remount,ro,bind "$root$1"
    shift
done
shift
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all "$@"
