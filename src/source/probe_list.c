// Files that act when they are read (amdgpu_gpu_recover, amdgpu_test_ib, amdgpu_evict_vram, amdgpu_gfxoff_status, KFD's sdma_* and more) are not here:
// a name is added only after its handler in the driver was read.
#include <errno.h>

#include "source/probe.h"
#include "source/probe_list.h"

enum {
	READ = 1 << PROBE_FILE | 1 << PROBE_READ,
	LIST = 1 << PROBE_LIST,
	LINK = 1 << PROBE_LINK,
	IOCTL = READ | 1 << PROBE_IOCTL | 1 << PROBE_BANKED,
	FIND = 1 << PROBE_FIND,
	SECTION = 1 << PROBE_SECTION,
	NODE = 1 << PROBE_IOCTL | 1 << PROBE_QUERY,
};

/** Names in a directory, or a directory below it, with a space between them. `*` stands for characters other than `/`. */
struct probe_row {
	const char *directory;
	const char *names;
	unsigned kinds;
};

#define DRI "/sys/kernel/debug/dri/*"
#define PCI "/sys/bus/pci/devices/*"
#define CARD "/sys/class/drm/*/device" // is one of PCI
#define KFD "/sys/class/kfd/kfd"
#define CONF(name) name ".conf " name ".conf.d/*.conf"
#define PYTHON                                                                                                                 \
	"python3*/dist-packages/torch/version.py python3*/site-packages/torch/version.py "                                     \
	"python3*/site-packages/_rocm_sdk_core/.info/version python3*/dist-packages/_rocm_sdk_core/.info/version"

static const struct probe_row list[] = {
	{ "/sys/bus/pci", "devices slots drivers/amdgpu", LIST },
	{ "/sys/bus/pci/devices", "*", LINK },
	{ "/sys/bus/pci/slots/*", "address", READ },
	{ PCI, "config vendor device revision class subsystem_vendor subsystem_device", READ },
	{ PCI, "current_link_speed current_link_width max_link_speed max_link_width", READ },
	{ PCI, "aer_dev_correctable aer_dev_nonfatal aer_dev_fatal power_state power/runtime_status label uevent", READ },
	{ PCI, "unique_id serial_number product_name product_number vbios_version xgmi_device_id xgmi_hive_info/xgmi_hive_id",
	  READ },
	{ PCI, "current_compute_partition current_memory_partition mem_info_vram_total mem_info_vram_used", READ },
	{ PCI, "mem_info_gtt_total mem_info_gtt_used mem_info_vis_vram_total mem_info_vis_vram_used", READ },
	{ PCI, "gpu_busy_percent mem_busy_percent", READ },
	{ PCI, "fw_version/*_fw_version devcoredump/data", READ },
	{ PCI, "driver physfn iommu_group", LINK },
	{ PCI, "drm hwmon msi_irqs fw_version xgmi_hive_info ip_discovery ip_discovery/die devcoredump", LIST },
	{ PCI "/hwmon/*", "name power1_average power1_input power1_cap temp*_input temp*_label temp*_crit freq*_input freq*_label", READ },
	{ PCI "/ip_discovery/die", "* */* */*/*", LIST },
	{ PCI "/ip_discovery/die/*/*/*", "hw_id num_instance major minor revision harvest num_base_addresses base_addr", READ },
	{ "/sys/class", "drm", LIST },
	{ "/sys/class/drm", "* */device", LINK },
	{ KFD "/topology", "nodes", LIST },
	{ KFD "/topology/nodes/*", "gpu_id name properties", READ },
	{ KFD, "proc proc/* proc/*/queues", LIST },
	{ KFD "/proc/*", "pasid vram_* queues/*/gpuid queues/*/size queues/*/type", READ },
	{ "/sys/kernel/debug", "dri", LIST },
	{ "/sys/kernel/debug/dri", "*", LIST },
	{ DRI, "name amdgpu_regs amdgpu_wave amdgpu_gpr amdgpu_gca_config amdgpu_ring_*", READ },
	{ DRI, "amdgpu_firmware_info amdgpu_gfxoff amdgpu_vram amdgpu_iomem amdgpu_fence_info", READ },
	{ DRI, "amdgpu_regs_pcie amdgpu_regs_didt", READ },
	{ DRI, "amdgpu_regs2 amdgpu_gprwave", IOCTL },
	{ "/sys/kernel/debug/dri/client-*", "proc_info vm_pagetable_info queue-*/mqd_info queue_*/mqd_info", READ },
	{ "/sys/kernel/debug/dri/client-*", "device", LINK },
	{ "/sys/kernel/debug/kfd", "mqds hqds rls", READ },
	{ "/sys/kernel/security", "lockdown", READ },
	{ "/sys/module", "amdgpu/version amdgpu/taint amdgpu/parameters/* ttm/parameters/* amdttm/parameters/*", READ },
	{ "/sys/module", "drm/parameters/* radeon/parameters/* amdkfd/parameters/*", READ },
	{ "/sys", "module module/*/parameters", LIST },
	{ "/etc", "os-release default/grub default/grub.d/* kernel/cmdline modprobe.d/*", READ },
	{ "/etc", "default/grub.d modprobe.d", LIST },
	{ "/usr/lib", "os-release modprobe.d/*", READ },
	{ "", "/run/modprobe.d /usr/local/lib/modprobe.d /usr/lib/modprobe.d /lib/modprobe.d", LIST },
	{ "", "/run/modprobe.d/* /usr/local/lib/modprobe.d/* /lib/modprobe.d/*", READ },
	{ "", "/boot/loader/entries /boot/efi/loader/entries /efi/loader/entries", LIST },
	{ "", "/boot/loader/entries/* /boot/efi/loader/entries/* /efi/loader/entries/*", READ },
	{ "", "/lib/modules/*/modules.dep /lib/modules/*/modules.builtin", FIND },
	{ "", "/usr/lib/modules/*/modules.dep /usr/lib/modules/*/modules.builtin", FIND },
	{ "/lib/modules/*/kernel/drivers/gpu/drm/amd/amdgpu", "amdgpu.ko*", SECTION },
	{ "/lib/modules/*", "*/amdgpu.ko* */*/amdgpu.ko* */*/*/amdgpu.ko*", SECTION },
	{ "/usr/lib/modules/*/kernel/drivers/gpu/drm/amd/amdgpu", "amdgpu.ko*", SECTION },
	{ "/usr/lib/modules/*", "*/amdgpu.ko* */*/amdgpu.ko* */*/*/amdgpu.ko*", SECTION },
	{ "", "/var/lib/dkms/amdgpu /var/lib/dkms/amdgpu/* /var/lib/pacman/local", LIST },
	{ "/var/lib/dpkg", "status", FIND },
	{ "/proc", "interrupts cmdline cpuinfo version mounts sys/kernel/osrelease", READ },
	{ "/var/log", "dmesg kern.log messages syslog", READ },
	{ "", "/dmesg /dmesg.txt", READ },
	{ "", "/proc", LIST },
	{ "/proc/*", "stat comm cmdline status stack wchan maps mem fdinfo/*", READ },
	{ "/proc/*", "fd fdinfo task", LIST },
	{ "/proc/*", "fd/* exe", LINK },
	{ "/proc/*/task/*", "stat comm status stack wchan", READ },
	{ "/dev/dri", "renderD*", NODE },
	// GPUs and the buses above them. The kernel has all of these in memory, except the level of the clocks: reading that resumes a
	// sleeping GPU and waits for the power controller's lock, so only a GPU that is awake is asked.
	{ PCI, "boot_vga resource power/control available_compute_partition link/l1_aspm ras/gpu_vram_bad_pages", READ },
	{ PCI, "ras/event_state xgmi_physical_id gpu_metrics", READ },
	{ PCI, "power_dpm_force_performance_level", READ },
	{ PCI, "iommu_group/type drm/card*/card*/status", READ },
	{ PCI, "drm/card*", LIST },
	{ "/sys/class/drm", "card*/status", READ },
	{ KFD "/topology/nodes/*", "io_links", LIST },
	{ KFD "/topology/nodes/*/io_links/*", "properties", READ },
	{ "/sys/class", "iommu", LIST },
	{ "/sys/module/pcie_aspm/parameters", "policy", READ },
	// what is around the GPUs: containers, limits, logs, cores, environment
	{ "", "/.dockerenv /run/.containerenv /etc/group /etc/environment /etc/profile", READ },
	{ "/proc/*", "environ limits mountinfo mounts cgroup", READ },
	{ "/proc/sys/kernel", "core_pattern core_uses_pid", READ },
	{ "/sys", "kernel/kexec_crash_loaded fs/cgroup/memory.max", READ },
	{ "", "/dev /dev/dri /var/log /var/log/journal /sys/fs/pstore /etc/profile.d /etc/environment.d /etc/systemd/system",
	  LIST },
	{ "/etc/security", "limits.conf limits.d/*.conf", READ },
	{ "/etc/security", "limits.d", LIST },
	{ "/etc", "profile.d/*.sh environment.d/*.conf systemd/system/*.service systemd/system/*.service.d/*.conf", READ },
	{ "/etc/systemd/system", "*.service.d", LIST },
	{ "/etc/systemd", CONF("journald") " " CONF("coredump"), READ },
	{ "/usr/lib/systemd", CONF("journald") " " CONF("coredump"), READ },
	{ "/etc/systemd", "journald.conf.d coredump.conf.d", LIST },
	{ "/usr/lib/systemd", "journald.conf.d coredump.conf.d", LIST },
	// software
	{ "", "/opt /usr/bin /usr/local/bin /usr/lib64 /usr/lib /usr/local/lib /usr/lib/x86_64-linux-gnu", LIST },
	{ "", "/opt/rocm /opt/venv/lib /opt/conda/lib /opt/conda/envs /opt/conda/envs/*/lib", LIST },
	{ "/opt", "*/.info/version rocm/*/.info/version", READ },
	{ "/opt", "*/bin */lib */llvm/bin */lib/llvm/bin rocm/*/bin rocm/*/lib rocm/*/llvm/bin rocm/*/lib/llvm/bin", LIST },
	{ "/usr/lib", PYTHON, READ },
	{ "/usr/lib64", PYTHON, READ },
	{ "/usr/local/lib", PYTHON, READ },
	{ "/opt/venv/lib", PYTHON, READ },
	{ "/opt/conda/lib", PYTHON, READ },
	{ "/opt/conda/envs/*/lib", PYTHON, READ },
	// the boot loader, and what a change of its settings needs
	{ "/boot/*", "grub.cfg", READ },
	{ "/boot/loader", "loader.conf", READ },
	{ "/boot/efi/loader", "loader.conf", READ },
	{ "/efi/loader", "loader.conf", READ },
	{ "", "/boot/EFI/Linux /boot/efi/EFI/Linux /efi/EFI/Linux", LIST },
	{ "/usr/sbin", "grubby grub-mkconfig grub2-mkconfig update-grub update-initramfs proxmox-boot-tool dracut mkinitfs",
	  READ },
	{ "/usr/sbin", "transactional-update", READ },
	{ "/sbin", "apk mkinitfs", READ },
	{ "/usr/bin", "grubby grub-mkconfig grub2-mkconfig update-grub rpm-ostree dracut dracut-rebuild mkinitcpio genkernel",
	  READ },
	{ "/usr/bin", "apt dnf dnf5 zypper pacman apk emerge xbps-install eopkg transactional-update abroot tdnf midclt",
	  READ },
	{ "/usr/bin",
	  "kernelstub sdbootutil sdboot-manage limine-mkinitcpio limine-entry-tool reinstall-kernels clr-boot-manager", READ },
	{ "/usr/lib/booster", "regenerate_images", READ },
	{ "/etc",
	  "NIXOS kernelstub/configuration kernel/proxmox-boot-uuids sdboot-manage.conf default/limine update-extlinux.conf",
	  READ },
	{ "/etc", "zipl.conf kernel/install.conf", READ },
	{ "/var/db/pkg", "sys-kernel", LIST },
	{ "", "/opt/rocm/lib/librocdxg.so /opt/rocm/core/lib/librocdxg.so /usr/lib/x86_64-linux-gnu/librocdxg.so", READ },
	{ "", "/usr/local/lib/librocdxg.so /var/lib/dpkg/info/hsa-runtime-rocr4wsl-amdgpu.list", READ },
	{ "/nix/var/nix", "profiles", LIST },
	{ "/boot",
	  "limine.conf limine.cfg limine/limine.conf EFI/limine/limine.conf efi/limine.conf efi/EFI/limine/limine.conf", READ },
	{ "/boot", "efi/EFI/refind/refind.conf EFI/refind/refind.conf extlinux.conf extlinux/extlinux.conf", READ },
	{ "/boot", "syslinux/syslinux.cfg firmware/cmdline.txt", READ },
	{ "/efi", "limine.conf EFI/limine/limine.conf EFI/refind/refind.conf", READ },
	{ "/run", "ostree-booted", READ },
	{ "/sysroot", "ostree", LIST },
	{ "", "/ostree", LIST },
	{ "/sys/firmware/efi/efivars", "LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", READ },
	{ "/sys/module/*", "parameters/*", READ },
	{ "", "/usr/lib/modules/*/modules.builtin /lib/modules/*/modules.builtin", READ },
	{ "/sys/firmware/efi/efivars", "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", READ },
	{ "/proc", "stat self/uid_map sys/kernel/numa_balancing", READ },
	// versions of before
	{ "", "/lib/modules /usr/lib/modules /var/cache/apt/archives /var/cache/pacman/pkg", LIST },
	{ "/var/cache", "libdnf5 libdnf5/*/packages dnf dnf/*/packages", LIST },
};

/** Reading these makes the driver clear the hardware's counters, or may wait. So they are read only in a tree, where they are a record. */
static const struct probe_row recorded[] = {
	{ PCI, "ras", LIST },
	{ PCI, "ras/*_err_count", READ },
	{ PCI, "driver_override", READ }, // waits for a driver that starts
};

/** The numbers of the driver's register files are those of silicon.h. */
static const struct {
	const char *path;
	unsigned long request;
} requests[] = {
	{ DRI "/amdgpu_regs2", 0xC0282000 },        { DRI "/amdgpu_regs2", 0xC02C2001 },
	{ DRI "/amdgpu_gprwave", 0xC0242000 },      { "/dev/dri/renderD*", DRM_VERSION_IOCTL },
	{ "/dev/dri/renderD*", AMDGPU_INFO_IOCTL },
};

/** Takes off @path what @pattern stands for, component by component, so that no `*` takes a `/`. */
static bool probe_list_take(struct str pattern, struct str *path)
{
	while (pattern.n) {
		struct str want = str_split(&pattern, '/'), component = str_split(path, '/');
		if (!component.n != !want.n || !str_glob(want, component) || str_is(component, "..") || str_is(component, "."))
			return false;
	}
	return true;
}

static bool is(struct str pattern, struct str path) { return probe_list_take(pattern, &path) && !path.n; }

/** The directory of a row, also where a card leads to it. */
static bool probe_list_take_directory(struct str directory, struct str *path)
{
	struct str below = str_from(directory, sizeof(PCI) - 1), rest = *path;
	if (probe_list_take(directory, path))
		return true;
	*path = rest;
	if (!str_starts(directory, S(PCI)) || !probe_list_take(S(CARD), path))
		return false;
	return !below.n || probe_list_take(str_from(below, 1), path);
}

static bool probe_list_listed(const struct probe_row *rows, size_t n, enum probe_kind kind, struct str path)
{
	for (size_t i = 0; i < n; i++) {
		struct str names = str_z(rows[i].names), rest = path;
		if (!(rows[i].kinds >> kind & 1) || !probe_list_take_directory(str_z(rows[i].directory), &rest))
			continue;
		while (names.n)
			if (is(str_split(&names, ' '), rest))
				return true;
	}
	return false;
}

bool probe_listed(enum probe_kind kind, struct str path) { return probe_list_listed(list, ARRAY_SIZE(list), kind, path); }

bool probe_listed_recorded(enum probe_kind kind, struct str path)
{
	return probe_list_listed(recorded, ARRAY_SIZE(recorded), kind, path);
}

bool probe_allowed(const struct probe *p)
{
	struct str path = str_z(p->path);
	bool takes = false; // the file takes this ioctl
	if (!probe_listed(p->kind, path) || p->argument_size > ARGUMENT_MOST)
		return false;
	switch (p->kind) {
	case PROBE_IOCTL:
	case PROBE_BANKED: // an argument with pointers goes through PROBE_QUERY
		for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
			takes |= requests[i].request == p->request && is(str_z(requests[i].path), path);
		return takes && p->request != AMDGPU_INFO_IOCTL && p->argument_size == (p->request >> 16 & 0x3fff);
	case PROBE_QUERY:
		return p->argument_size == sizeof(struct amdgpu_query);
	default:
		// Behind 4 GB the driver of most parts has no function, and stops with BUG().
		return !is(S(DRI "/amdgpu_regs_pcie"), path) || (p->offset <= UINT32_MAX && p->size <= UINT32_MAX - p->offset);
	}
}

// === What an answer means. ===

bool probe_unread(const struct probe *p)
{
	static const int passing[] = { EIO,     ELOOP,  EISDIR, EAGAIN,    EINTR,  ENOMEM,
				       ENOBUFS, EMFILE, ENFILE, ETIMEDOUT, ESTALE, EBUSY };
	if (p->end != PROBE_FAILED)
		return p->end == PROBE_STUCK || p->end == PROBE_NOT_MADE;
	for (size_t i = 0; i < ARRAY_SIZE(passing); i++)
		if (p->error == passing[i])
			return true;
	return false;
}

struct str probe_text(const struct probe *p)
{
	struct str text = { p->data, p->end == PROBE_GOOD ? p->n : 0 };
	if (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	return text;
}
