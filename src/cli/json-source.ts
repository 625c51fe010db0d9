/** Reads JSON from a flag, a file or standard input and checks it before anything is sent. */
import type { Stats } from 'node:fs'
import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { parseGuardedObject } from '#kernel/json-guard'
import { checkSize, defaultJsonLimits, type JsonLimits, type JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import type { Terminal } from './terminal.ts'

export type JsonFlags = { readonly payload?: string; readonly file?: string }

const STDIN = 'standard input'

/** Undefined if nothing was given. `dash` is the argument that may only be `-`. */
export async function readJsonFlags(
  terminal: Terminal,
  { payload, file }: JsonFlags,
  dash: string | undefined,
): Promise<Decision<JsonObject | undefined>> {
  if (dash !== undefined && dash !== '-') {
    return refuse('cli.usage', `The argument ${quote(dash)} is not expected here.`, {
      hint: 'Give JSON with --payload (in single quotes), the name of a file with --file, or - for standard input.',
    })
  }
  if ([payload, file, dash].filter((given) => given !== undefined).length > 1) {
    return refuse('cli.usage', '--payload, --file and - cannot be combined.', {
      path: '--payload',
      hint: 'Give one of them.',
    })
  }
  if (payload !== undefined) return parseNamed('--payload', payload)
  if (file === undefined && dash === undefined) return accept(undefined)
  const read = await readText(terminal, file ?? '-')
  return read.ok ? parseNamed(read.value.name, read.value.text) : read
}

/** Reads a file, or standard input for `-`. */
export async function readText(
  terminal: Terminal,
  file: string,
  limits = defaultJsonLimits,
): Promise<Decision<{ readonly name: string; readonly text: string }>> {
  const name = file === '-' ? STDIN : file
  const bytes =
    file === '-'
      ? await collect(STDIN, () => Promise.resolve(terminal.stdin()), terminal, limits)
      : await readFile(file, terminal, limits)
  if (!bytes.ok) return bytes
  const text = decodeText(name, bytes.value)
  return text.ok ? accept({ name, text: text.value }) : text
}

/** Parses JSON; a refusal names the source before the position inside it. */
export function parseNamed(name: string, text: string): Decision<JsonObject> {
  const parsed = parseGuardedObject(text)
  if (parsed.ok) return parsed
  const { code, reason, path, hint, facts } = parsed
  return refuse(code, `${shown(name)}: ${reason}`, {
    path: path === undefined ? name : `${name}: ${path}`,
    hint: (hint ?? 'Fix it and try again.').replace(/^Send /, 'Give '),
    ...(facts === undefined ? {} : { facts }),
  })
}

async function readFile(name: string, terminal: Terminal, limits: JsonLimits): Promise<Decision<Uint8Array>> {
  const path = resolve(terminal.folder, name)
  try {
    await using file = await open(path)
    const refusal = refuseKind(name, await file.stat(), limits)
    const open_ = () => Promise.resolve(file.createReadStream({ autoClose: false }))
    return refusal ?? (await collect(name, open_, terminal, limits))
  } catch (error) {
    return refuseUnreadable(name, (error as NodeJS.ErrnoException).code ?? String(error))
  }
}

/** Checks the size before reading; a pipe has no size and is counted while it is read. */
function refuseKind(name: string, stats: Stats, limits: JsonLimits): Refusal | undefined {
  if (stats.isDirectory()) return refuseUnreadable(name, 'EISDIR')
  return checkSize(stats.size, limits).ok ? undefined : refuseLarge(name, limits)
}

async function collect(
  name: string,
  source: () => Promise<Readable>,
  { stop }: Terminal,
  limits: JsonLimits,
): Promise<Decision<Uint8Array>> {
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  try {
    for await (const chunk of addAbortSignal(stop, await source()) as AsyncIterable<Buffer>) {
      sizeBytes += chunk.byteLength
      if (!checkSize(sizeBytes, limits).ok) return refuseLarge(name, limits)
      chunks.push(chunk)
    }
    return accept(Buffer.concat(chunks))
  } catch (error) {
    if (stop.aborted)
      return refuse('cli.wait.ended', `The program was stopped before ${shown(name)} ended.`, { path: name })
    return refuseUnreadable(name, (error as NodeJS.ErrnoException).code ?? String(error))
  }
}

function decodeText(name: string, bytes: Uint8Array): Decision<string> {
  try {
    // The decoder removes the byte order mark that editors on Windows write.
    return accept(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return refuse('invalid_unicode', `${shown(name)} is not text in UTF-8.`, { path: name, hint: 'Save it as UTF-8.' })
  }
}

function refuseLarge(name: string, { bytesMax }: JsonLimits): Refusal {
  return refuse('body_too_large', `${shown(name)} is larger than ${bytesMax / 1_048_576} MiB.`, {
    path: name,
    hint: 'Send a reference to large data, not the data.',
    facts: { limitBytes: bytesMax },
  })
}

const whyNot: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  EISDIR: 'is a folder',
  ENOTDIR: 'is not inside a folder',
}

/** A file without read permission exits 77. A file that does not exist or is a folder exits 65. */
export function refuseUnreadable(name: string, errno: string): Refusal {
  if (errno === 'EACCES' || errno === 'EPERM') {
    return refuse('cli.file.unreadable', `You do not have permission to read ${shown(name)}.`, {
      path: name,
      hint: 'Change its permissions, or pipe it in: sudo cat <file> | concord … -',
    })
  }
  return refuse('cli.file.invalid', `${shown(name)} ${whyNot[errno] ?? `cannot be read (${errno})`}.`, {
    path: name,
    hint: 'Give the name of a file with one JSON object, or - for standard input.',
  })
}

function shown(name: string): string {
  return name === STDIN || name.startsWith('--') ? name : quote(name)
}
