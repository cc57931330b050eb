#!/bin/sh
# Run a command on a machine that is a folder: enter.sh LOWER UPPER USER HOME SHARED COMMAND
#
# What it writes goes to UPPER/top; LOWER stays clean. `unshare` gave this script mounts and processes of its own, so
# the kernel undoes every mount and ends every process when the script ends, however it ends.
set -e
lower=$1 upper=$2 user=$3 home=$4 shared=$5 command=$6
root=$upper/root
mkdir -p "$upper/top" "$upper/work" "$root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper/top,workdir=$upper/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
for folder in $shared; do # where this machine's pip finds packages on the disk
    mkdir -p "$root$folder"
    mount --bind -o ro "$folder" "$root$folder"
done
exec chroot "$root" setpriv --reuid="$user" --regid="$user" --init-groups env -i "HOME=$home" "USER=$user" TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "$command"
