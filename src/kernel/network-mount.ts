/** File systems whose locks and flushes do not hold between machines, by the type that statfs(2) returns. */
const networkMounts: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x01021997, '9p'],
  [0x5346414f, 'AFS'],
  [0x00c36400, 'Ceph'],
])

/** Returns undefined for a local file system. */
export function networkMountName(type: number): string | undefined {
  // Some kernels return the type as a signed number.
  return networkMounts.get(type >>> 0)
}
