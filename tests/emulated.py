"""Running unhang inside an emulated machine, where this one can make such."""
import json

import jsonschema

import tap

# What a look may open, by the end of the path. Whatever else is opened is a mistake, also where it would do no harm.
ALLOWED = """
    */lockdown */module/amdgpu/version */module/amdgpu/parameters/* */slots/*/address
    */vendor */device */revision */class */config */subsystem_vendor */subsystem_device */label
    */current_link_speed */current_link_width */max_link_speed */max_link_width */aer_dev_*
    */power/runtime_status */power_state */unique_id */serial_number */product_name */product_number */vbios_version
    */xgmi_device_id */xgmi_hive_id */current_compute_partition */current_memory_partition */mem_info_*
    */gpu_busy_percent */mem_busy_percent */power_dpm_force_performance_level */parameters/ppfeaturemask */hwmon*/name */power1_* */temp1_input */temp*_input */temp*_crit */freq*_input */gpu_metrics */ras/event_state */ras/gpu_vram_bad_pages */xgmi_physical_id
    */fw_version/* */ip_discovery/die/* */devcoredump/data
    */topology/nodes/*/gpu_id */topology/nodes/*/name */topology/nodes/*/properties
    */kfd/proc/*/pasid */kfd/proc/*/vram_* */kfd/proc/*/queues/*/*
    */dri/*/name */amdgpu_regs */amdgpu_regs2 */amdgpu_wave */amdgpu_gprwave */amdgpu_gpr */amdgpu_gca_config
    */amdgpu_gfxoff */amdgpu_ring_* */amdgpu_firmware_info */debug/kfd/mqds */debug/kfd/hqds */dri/client-*/*_info */amdgpu_vram */amdgpu_iomem
    /dev/dri/renderD* /dev/kmsg /proc/interrupts /proc/uptime /proc/osrelease /proc/version /proc/*/fdinfo/* /proc/fdinfo/*
""".split()
ACTS = ["*recover*", "*test_ib*", "*evict*", "*preempt*", "*sclk*", "*benchmark*", "*hang_hws*", "*fence_info*", "*gfxoff_*",
        "*vm_info*", "*gem_info*", "*/amdgpu_error_*", "/dev/kfd", "/dev/dri/card*"]


def validator(name):
    schema = json.loads((tap.HERE / ".." / "docs" / f"{name}.schema.json").read_text())
    return jsonschema.validators.validator_for(schema)(schema)


def document(t, run, schema, name, status=0):
    """The JSON of a run, whose form is tested; {} where it has not the right one."""
    try:
        found = json.loads(run.stdout)
    except ValueError as problem:
        t.ok(False, name, f"no JSON: {problem}; status {run.returncode}; {run.stderr.decode()[-300:]}")
        return {}
    wrong = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in validator(schema).iter_errors(found)][:5]
    if run.returncode != status:
        wrong.append(f"status {run.returncode}: {run.stderr.decode()[-300:]}")
    t.no_complaints(wrong, name)
    return {} if wrong else found


def possible(unhang):
    """Whether a scenario can be made here: it needs FUSE and name spaces."""
    return unhang.run("emulate", "idle", "--", "true").returncode == 0


def inside(unhang, scenario, *arguments):
    return unhang.run("emulate", scenario, "--", unhang.binary, *arguments)


def only_reads(t, unhang, scenario, arguments, name):
    """Runs it, and looks at what reached the emulated machine: returns the paths that were opened."""
    record = unhang.directory / "record.json"
    record.unlink(missing_ok=True)
    run = unhang.run("emulate", "--record", record, scenario, "--", unhang.binary, *arguments)
    done = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    wrong = [str(d) for d in done if d["op"] == "write" or (d["op"] == "open" and d["mode"] != "read")]
    if run.returncode or not done:
        wrong.append(f"status {run.returncode}, {len(done)} operations: {run.stderr.decode()[-300:]}")
    t.no_complaints(wrong[:5], name)
    return {d["path"] for d in done if d["op"] == "open"}


def refuses(t, unhang, arguments, words, name):
    """Status 2, nothing on stdout, one line on stderr that has the words."""
    run = unhang.run(*arguments)
    said = run.stderr.decode()
    good = run.returncode == tap.CANNOT and said.count("\n") == 1 and not run.stdout and all(word in said for word in words)
    t.ok(good, name, f"status {run.returncode}: {said}{run.stdout[:200]}")
