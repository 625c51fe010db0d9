/** A small disk in a file whose power can be cut: the file system loses what was not yet on it. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fastFolder } from './fast-folder.ts'

export type LoopDisk = {
  readonly mount: string
  /** After this, nothing reaches the disk, not even the journal of the file system. */
  cutPower(): void
  /** Unmounts the disk and mounts it again, as after a start of the machine. */
  restart(): void
  remove(): void
}

const SIZE_BYTES = 96 * 2 ** 20

/** FS_IOC_SHUTDOWN with "do not flush the log": ext4 and XFS know it, perl is part of every Debian. */
const SHUTDOWN =
  'open(my $d, "<", $ARGV[0]) or die "$!"; my $flag = pack("L", 2); ioctl($d, 0x8004587d, $flag) or die "$!"'

function call(command: string, args: readonly string[]): void {
  const done = spawnSync(command, args, { encoding: 'utf8' })
  if (done.error) throw new Error(`${command} cannot be run: ${done.error.message}`)
  if (done.status !== 0) throw new Error(`${command} ${args.join(' ')}: ${done.stderr.trim()}`)
}

export function openLoopDisk(): LoopDisk {
  const folder = mkdtempSync(join(fastFolder(), 'concord-disk-'))
  const image = join(folder, 'image')
  const mount = join(folder, 'mount')
  const attach = () => call('mount', ['-o', 'loop', image, mount])
  const remove = () => {
    spawnSync('umount', [mount])
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    mkdirSync(mount)
    writeFileSync(image, '')
    truncateSync(image, SIZE_BYTES)
    call('mkfs.ext4', ['-q', '-F', image])
    attach()
  } catch (error) {
    remove()
    throw error
  }
  return {
    mount,
    cutPower: () => call('perl', ['-e', SHUTDOWN, mount]),
    restart() {
      call('umount', [mount])
      attach()
    },
    remove,
  }
}

/** Why the power cannot be cut here; undefined if it can. */
export function whyNoPowerCut(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'cutting the power needs Linux and root'
  if (!existsSync('/dev/loop-control')) return 'there are no loop devices'
  try {
    const disk = openLoopDisk()
    try {
      disk.cutPower()
      disk.restart()
    } finally {
      disk.remove()
    }
    return undefined
  } catch (error) {
    return `no disk of our own can be cut off: ${(error as Error).message}`
  }
}
