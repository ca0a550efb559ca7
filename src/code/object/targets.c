#include "code/object/targets.h"

// How a family counts registers: wave32, wave64, granule_32, granule_64, accum_offset.
#define GCN false, true, 0, 4, false
#define CDNA false, true, 0, 8, true
#define RDNA true, true, 8, 4, false
#define WIDE true, false, 16, 0, false // 1024 VGPRs
#define NEW true, true, 0, 0, false    // not known how it counts

static const struct code_target targets[] = {
	{ 0x20, "gfx600", GCN },
	{ 0x21, "gfx601", GCN },
	{ 0x3a, "gfx602", GCN },
	{ 0x22, "gfx700", GCN },
	{ 0x23, "gfx701", GCN },
	{ 0x24, "gfx702", GCN },
	{ 0x25, "gfx703", GCN },
	{ 0x26, "gfx704", GCN },
	{ 0x3b, "gfx705", GCN },
	{ 0x28, "gfx801", GCN, .xnack = true },
	{ 0x29, "gfx802", GCN },
	{ 0x2a, "gfx803", GCN },
	{ 0x3c, "gfx805", GCN },
	{ 0x2b, "gfx810", GCN, .xnack = true },
	{ 0x2c, "gfx900", GCN, .xnack = true },
	{ 0x2d, "gfx902", GCN, .xnack = true },
	{ 0x2e, "gfx904", GCN, .xnack = true },
	{ 0x2f, "gfx906", GCN, .xnack = true, .sramecc = true },
	{ 0x30, "gfx908", GCN, .xnack = true, .sramecc = true },
	{ 0x31, "gfx909", GCN, .xnack = true },
	{ 0x32, "gfx90c", GCN, .xnack = true },
	{ 0x3f, "gfx90a", CDNA, .xnack = true, .sramecc = true },
	{ 0x40, "gfx940", CDNA, .xnack = true, .sramecc = true },
	{ 0x4b, "gfx941", CDNA, .xnack = true, .sramecc = true },
	{ 0x4c, "gfx942", CDNA, .xnack = true, .sramecc = true },
	{ 0x4f, "gfx950", CDNA, .xnack = true, .sramecc = true },
	{ 0x33, "gfx1010", RDNA, .xnack = true },
	{ 0x34, "gfx1011", RDNA, .xnack = true },
	{ 0x35, "gfx1012", RDNA, .xnack = true },
	{ 0x42, "gfx1013", RDNA, .xnack = true },
	{ 0x36, "gfx1030", RDNA },
	{ 0x37, "gfx1031", RDNA },
	{ 0x38, "gfx1032", RDNA },
	{ 0x39, "gfx1033", RDNA },
	{ 0x3e, "gfx1034", RDNA },
	{ 0x3d, "gfx1035", RDNA },
	{ 0x45, "gfx1036", RDNA },
	{ 0x41, "gfx1100", RDNA },
	{ 0x46, "gfx1101", RDNA },
	{ 0x47, "gfx1102", RDNA },
	{ 0x44, "gfx1103", RDNA },
	{ 0x43, "gfx1150", RDNA },
	{ 0x4a, "gfx1151", RDNA },
	{ 0x55, "gfx1152", RDNA },
	{ 0x58, "gfx1153", RDNA },
	{ 0x57, "gfx1154", RDNA },
	{ 0x5d, "gfx1170", RDNA },
	{ 0x5e, "gfx1171", RDNA },
	{ 0x5c, "gfx1172", RDNA },
	{ 0x48, "gfx1200", RDNA },
	{ 0x4e, "gfx1201", RDNA },
	{ 0x49, "gfx1250", WIDE, .xnack = true, .sramecc = true },
	{ 0x5a, "gfx1251", WIDE, .xnack = true, .sramecc = true },
	{ 0x50, "gfx1310", NEW },
	{ 0x51, "gfx9-generic", GCN, .xnack = true },
	{ 0x5f, "gfx9-4-generic", CDNA, .xnack = true, .sramecc = true },
	{ 0x52, "gfx10-1-generic", RDNA, .xnack = true },
	{ 0x53, "gfx10-3-generic", RDNA },
	{ 0x54, "gfx11-generic", RDNA },
	{ 0x62, "gfx11-7-generic", RDNA },
	{ 0x59, "gfx12-generic", RDNA },
	{ 0x5b, "gfx12-5-generic", WIDE, .xnack = true, .sramecc = true },
	{ 0x63, "gfx13-generic", NEW },
};

enum { TARGETS = sizeof(targets) / sizeof(targets[0]) };

const struct code_target *code_target_of(unsigned mach)
{
	for (size_t i = 0; i < TARGETS; i++)
		if (targets[i].mach == mach)
			return &targets[i];
	return NULL;
}

const struct code_target *code_target_named(struct str name)
{
	for (size_t i = 0; i < TARGETS; i++)
		if (str_is(name, targets[i].name))
			return &targets[i];
	return NULL;
}
