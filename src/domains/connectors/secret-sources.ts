/** The two places for secrets that every machine has: the environment, and files. */
import { open } from 'node:fs/promises'
import type { SecretSource } from './secrets.ts'

const FILE_BYTES_MAX = 65_536

export function environmentSecrets(environment: Readonly<Record<string, string | undefined>>): SecretSource {
  return (place) => Promise.resolve(Object.hasOwn(environment, place) ? environment[place] : undefined)
}

/** `file:///run/secrets/key`: the text of the file without the line end that editors add. */
export function fileSecrets(): SecretSource {
  return async (place) => {
    const file = await open(place, 'r').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
      throw error
    })
    if (!file) return undefined
    try {
      const { size } = await file.stat()
      if (size > FILE_BYTES_MAX) throw new RangeError('the file is too large for a secret')
      return (await file.readFile('utf8')).replace(/\r?\n$/, '')
    } finally {
      await file.close()
    }
  }
}
