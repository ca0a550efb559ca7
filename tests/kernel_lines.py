"""Lines of a live kernel log: such as users can make the kernel print, and such as the driver prints, by kernel."""
import re

RAS = 'amdgpu 0000:03:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!'
LOST = 'amdgpu 0000:03:00.0: amdgpu: device lost from bus!'
RING = '[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102'
VRAM = '[drm] VRAM is lost due to GPU reset!'
AER = 'pcieport 0000:00:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)'
BOOT = '[drm] Initialized amdgpu 3.59.0 for 0000:03:00.0 on minor 0'

# (kind, who wrote it, text): none of them is the driver's.
FORGED = [(kind, 'kernel', text) for kind, texts in {
    'mount options of tmpfs': [f"tmpfs: Unknown parameter '{RAS}'", f"tmpfs: Bad value for '{LOST}'", f"tmpfs: Unknown parameter 'x\n{RAS}'",
                               f"tmpfs: Unknown parameter 'x\n[  100.000000] {RING}'"],
    'overlayfs': [f"overlayfs: failed to resolve '{RAS}': -2", f"overlayfs: unrecognized mount option \"{RING}\" or missing value",
                  f"overlayfs: failed to resolve 'x\n{LOST}': -2"],
    'audit': [f'audit: type=1400 audit(1700000000.123:45): apparmor="DENIED" operation="open" profile="job" name="{RAS}" pid=77 comm="job"',
              f'audit: type=1701 audit(1700000000.123:46): auid=1000 uid=1000 pid=77 comm="VRAM is lost!" exe="/tmp/{RING}" sig=11 res=1',
              f'audit: type=1309 audit(1700000000.123:47): argc=2 a0="job" a1="{LOST}"'],
    'names of processes': ['VRAM is lost![77]: segfault at 0 ip 0000000000000000 sp 00007ffd00000000 error 14', 'GPU reset begin[77]: segfault at 0 ip 0 sp 0 error 4',
                           f'job[77]: segfault at 0 ip 0000000000000000 sp 00007ffd00000000 error 4 in {RAS}[55d000000000+1000]',
                           f"process '/home/user/{RAS}' started with executable stack", '[drm] MES is bu: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL)',
                           'amdgpu: kiq fai invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0', 'traps: VRAM is lost![77] trap divide error ip:55d0 sp:7ffd error:0',
                           f'[drm] [77]: segfault at 0 ip 0 sp 0 error 4 in {RAS}[55d0+1000]', f'[drm:xxxxxxxxxx[77]: segfault at 0 ip 0 sp 0 error 4 in {RING}[55d0+1000]',
                           f'[drm:x [amdgpu][77]: segfault at 0 ip 0 sp 0 error 4 in {RING}[55d0+1000]', 'CPU:MES is busy[77]: segfault at 0 ip 0 sp 0 error 4',
                           f'traps: amdgpu: [drm] [77] trap invalid opcode ip:55d0 sp:7ffd error:0 in {LOST}[55d0+1000]',
                           'CPU: 3 PID: 77 Comm: VRAM is lost! Not tainted 6.12.1 #1'],
    'USB names': [f'usb 1-1: Product: {RAS}', f'usb 1-1: Manufacturer: {RING}', f'usb 1-1: SerialNumber: {AER}',
                  f'hid-generic 0003:046D:C52B.0001: input,hidraw0: USB HID v1.11 Keyboard [{LOST}] on usb-0000:00:14.0-1/input0'],
    'input devices': [f'input: {RAS} as /devices/virtual/input/input7', f'input: {VRAM} as /devices/virtual/input/input8'],
    'labels of disks': [f'EXT4-fs (loop0): mounted filesystem {RAS} r/w with ordered data mode. Quota mode: none.',
                        f"EXT4-fs error (device loop0): ext4_find_dest_de:2113: inode #12: block 7: comm job: bad entry in directory: '{LOST}'",
                        f'XFS (loop0): Mounting V5 Filesystem {VRAM}', f'FAT-fs (loop0): Volume {RING} was not properly unmounted.'],
    'names of interfaces': ['amdgpu: renamed from VRAM_is_lost', 'br0: port 1(kiq-failed) entered blocking state', 'e1000e 0000:00:1f.6 device-lost: NIC Link is Down',
                            'kfd: entered promiscuous mode'],
    'SELinux': [f'SELinux:  Context {RAS} is not valid (left unmapped).', f'SELinux: security_context_str_to_sid ({RING}) failed with errno=-22'],
    'sound': [f'snd_hda_codec_hdmi hdaudioC0D0: HDMI: monitor {RAS}', f'ALSA: seq: client {LOST} left'],
    'servers and networks': [f'nfs: server {RAS} not responding, still trying', f'CIFS: VFS: \\\\{RING} Send error in SessSetup = -13', f'Bluetooth: hci0: {VRAM}',
                             f'wlp4s0: associate with {LOST}'],
}.items() for text in texts] + [('a program in the kernel\'s log', 'daemon', text) for text in (f'systemd[1]: {RAS}', RAS, RING, LOST, 'INFO: task kworker/0:1:77 blocked for more than 120 seconds.')]

# Kernel -> what its driver prints; each begins an incident. Those that carry a device begin with its name.
TRUE = {
    '5.15': [[RING], ['amdgpu: qcm fence wait loop timeout expired'], ['amdgpu: [powerplay] failed to send message 200 ret is 0 '],
             ['amdgpu 0000:03:00.0: [gfxhub] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32770, for process python pid 4242 thread python pid 4242)',
              'amdgpu 0000:03:00.0:   in page starting at address 0x00007f3a00001000 from IH client 0x1b (UTCL2)'],
             ['amdgpu 0000:03:00.0: 1 uncorrectable hardware errors detected in umc block'], ['[drm:amdgpu_device_ip_init [amdgpu]] *ERROR* hw_init of IP block <psp> failed -22'],
             ['[drm:drm_atomic_helper_wait_for_flip_done [drm_kms_helper]] *ERROR* [CRTC:80:crtc-0] flip_done timed out'], ['[drm:amdgpu_cs_ioctl [amdgpu]] *ERROR* Failed to initialize parser -125!'],
             ['[drm:gfx_v8_0_ring_test_ring [amdgpu]] *ERROR* amdgpu: ring 0 test failed (scratch(0xC040)=0xFFFFFFFF)']],
    '6.1': [['[drm:mes_v11_0_submit_pkt_and_poll_completion.constprop.0 [amdgpu]] *ERROR* MES failed to response msg=3'],
            ['amdgpu: failed to remove hardware queue from MES, doorbell=0x1a02', 'amdgpu: MES might be in unrecoverable state, issue a GPU reset'],
            ['[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=5, emitted seq=7', '[drm] VRAM is lost due to GPU reset!'],
            ["amdgpu 0000:03:00.0: amdgpu: SMU: I'm not done with your previous command: SMN_C2PMSG_66:0x00000012 SMN_C2PMSG_82:0x00000005"]],
    '6.12': [['amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102', 'amdgpu 0000:03:00.0: amdgpu: GPU reset begin!'],
             ['amdgpu 0000:03:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE'], [LOST], ['amdgpu 0000:03:00.0: amdgpu: socket: 0, die: 0, 1 new uncorrectable hardware errors detected in umc block'],
             ['amdgpu 0000:03:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!']],
    '6.18': [['amdgpu 0000:03:00.0: [drm] *ERROR* ring gfx_0.0.0 timeout, signaled seq=100, emitted seq=102'], ['amdgpu 0000:03:00.0: [drm] *ERROR* [CRTC:80:crtc-0] flip_done timed out'],
             ['amdgpu 0000:03:00.0: amdgpu: MES(1) failed to respond to msg=REMOVE_QUEUE'], ['amdgpu 0000:03:00.0: {1} Uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!']],
    'any': [[BOOT, 'amdgpu 0000:03:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)'],
            [BOOT, 'AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:03:00.0 domain=0x0014 address=0x100000000 flags=0x0020]'],
            [BOOT, 'amdgpu 0000:03:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0014 address=0x100000000 flags=0x0020]'],
            ['BUG: kernel NULL pointer dereference, address: 0000000000000008', 'CPU: 3 PID: 4242 Comm: python Not tainted 6.12.1 #1', 'RIP: 0010:amdgpu_vm_bo_update+0x10/0x200 [amdgpu]'],
            ['INFO: task kworker/u64:1:123 blocked for more than 120 seconds.', '      Not tainted 6.12.1 #1', 'Call Trace:', ' <TASK>', ' amdgpu_fence_wait_empty+0x10/0x20 [amdgpu]'],
            ['watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:1:77]', ' amdgpu_device_rreg+0x10/0x20 [amdgpu]']],
}
ON_DEVICE = re.compile(r'^[\w-]+ ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): ')


def device_of(text):
    """What the kernel notes beside a line that dev_err() prints: subsystem and device; None where it notes nothing."""
    pci = ON_DEVICE.match(text)
    usb = re.match(r'^usb (\S+): ', text)
    return ('pci', f'+pci:{pci[1]}') if pci else ('usb', f'+usb:{usb[1]}') if usb else None
