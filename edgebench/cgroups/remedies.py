"""Why no cgroup can be made here: one remedy a cause, ending in what to type."""

from __future__ import annotations

NO_CGROUPS = """\
no cgroup file system is mounted. As root:
    mount -t cgroup2 cgroup2 /sys/fs/cgroup"""

NO_MEMORY = """\
the kernel runs with memory control off (Raspberry Pi OS boots so). Add to the kernel's
command line (/boot/firmware/cmdline.txt, or GRUB_CMDLINE_LINUX in /etc/default/grub):
    cgroup_enable=memory swapaccount=1
and restart. See what is on with: cat /proc/cgroups"""

NOT_VISIBLE = """\
the cgroup mount does not show the cgroup this process is in, as in some containers.
Start the container with its own view of cgroups:
    docker run --cgroupns=private --privileged …"""

READ_ONLY = """\
cgroups are mounted read-only, as containers have it. Start the container with:
    docker run --privileged --cgroupns=private …
or run edgebench on the host."""

NOT_OURS_V1 = """\
this cgroup belongs to root. Run edgebench under sudo (the workload still runs as you):
    sudo edgebench run …
or let root make a cgroup yours, once for this shell:
    sudo mkdir {folder}/mine && sudo chown -R $(id -u) {folder}/mine &&
    echo $$ | sudo tee {folder}/mine/cgroup.procs"""

NOT_OURS_V2 = """\
this cgroup belongs to root. Run edgebench in a scope that systemd delegates to you:
    systemd-run --user --scope -p Delegate=yes -- edgebench run …
or under sudo (the workload still runs as you):
    sudo edgebench run …"""

NOT_DELEGATED = """\
systemd manages this cgroup and has not delegated it. Run edgebench in a scope of its own:
    systemd-run --scope -p Delegate=yes -- edgebench run …"""

NO_MEMORY_BELOW = """\
memory control is not passed down to this cgroup. With systemd, ask for a delegated scope:
    systemd-run --user --scope -p Delegate=yes -- edgebench run …
else as root, in each cgroup from the top down to this one:
    echo +memory > cgroup.subtree_control"""

OTHERS_INSIDE = """\
version 2 allows no processes in a cgroup that has limited cgroups below it, and others than
edgebench's own are in this one. Move them into a cgroup below it first, as root:
    mkdir {folder}/others
    for pid in $(cat {folder}/cgroup.procs); do echo $pid > {folder}/others/cgroup.procs; done"""
