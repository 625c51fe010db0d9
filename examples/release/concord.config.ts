/** The tasks of a release: notes, a package, its test, and the announcement, for which the release manager is asked. */
import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { allow, ask, defineCommand, defineEffect, defineProject, EffectFailure } from '@concordhq/concord'
import { z } from 'zod'

const folder = process.env['RELEASE_FOLDER'] ?? '.concord/release'
const changes = { '2.4': ['Missions run plans of tasks.', 'Budgets stop them in time.'] } as const

async function save(name: string, text: string): Promise<string> {
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, name), text, { flush: true })
  return createHash('sha256').update(text).digest('hex')
}

const version = z.enum(Object.keys(changes) as [keyof typeof changes]).meta({ example: '2.4' })

const writeNotes = defineEffect('artifact.release_notes', {
  input: z.object({ version }),
  class: 'keyed',
  async do({ input, artifacts }) {
    const title = `Release ${input.version}`
    const text = [title, ...changes[input.version].map((change) => `- ${change}`), ''].join('\n')
    const written = await artifacts.write({ type: 'report', title, file_name: 'notes.txt', content: { text } })
    return { artifact_id: written.artifact_id, checksum: written.checksum }
  },
})

/** It says what it used: the mission pays for it. */
const build = defineEffect('package.build', {
  input: z.object({ version }),
  class: 'keyed',
  async do({ input }) {
    const file = `package-${input.version}.txt`
    const sha256 = await save(file, `package ${input.version}\n`)
    return { file, sha256, usage: { cost: '0.40', tokens: 0 } }
  },
})

const built = z.object({ file: z.string().meta({ example: 'package-2.4.txt' }), sha256: z.string() })
const check = defineEffect('package.test', {
  input: built,
  class: 'read',
  async do({ input: { file, sha256 } }) {
    const text = await readFile(join(folder, file))
    if (createHash('sha256').update(text).digest('hex') !== sha256)
      throw new EffectFailure('validation_error', 'the package is not the one that was built')
    return { passed: 3 }
  },
})

/** The name of the letter is made from the key of the effect, so a repeated call writes the same letter. */
const announce = defineEffect('letters.announce', {
  input: z.object({ version, notes: z.string(), passed: z.int() }),
  class: 'keyed',
  async do({ input, idempotencyKey }) {
    await save(
      `letter-${createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 8)}.txt`,
      JSON.stringify(input),
    )
    return { announced: input.version }
  },
})

export default defineProject({
  catalog: [
    defineCommand('write_release_notes', {
      input: writeNotes.input,
      policy: allow,
      steps: (input) => [writeNotes(input)],
      task: { name: 'Write Release Notes' },
    }),
    defineCommand('build_package', {
      input: build.input,
      policy: allow,
      steps: (input) => [build(input)],
      task: { name: 'Build Package' },
    }),
    defineCommand('test_package', {
      input: built,
      policy: allow,
      steps: (input) => [check(input)],
      task: { name: 'Test Package' },
    }),
    defineCommand('announce_release', {
      input: announce.input,
      policy: () => ask(1, 'release-manager', 'A release leaves the company.'),
      steps: (input) => [announce(input)],
      task: { name: 'Announce Release' },
    }),
  ],
})
