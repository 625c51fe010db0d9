/** `concord init`: creates a project with one command, its policy and its test. It also runs on Node 20, since the project brings its own Node. */
import { readFile, mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Add, verb } from './noun.ts'
import type { Cli } from './terminal.ts'

type Made = { readonly folder: string; readonly files: readonly string[] }

export const init = (cli: Cli): Add =>
  verb<[folder: string | undefined], Made>({
    description: 'create a project: one command, its policy and its test',
    args: [['[folder]', 'a new folder, or one without these files; default: the current folder']],
    examples: ['concord init refunds'],
    ask: (folder = '.') => createProject(resolve(cli.terminal.folder, folder)),
    say: ({ folder, files }, given) =>
      [
        `Created ${files.length} files in ${folder}`,
        '',
        'Next:',
        ...(given === undefined ? [] : [`  cd ${given}`]),
        '  npm install',
        '  npm test        runs refund.test.ts on a throw-away database',
        '  npm run dev     serves the project, and restarts on every change',
        '',
      ].join('\n'),
  })

async function createProject(folder: string): Promise<Decision<Made>> {
  const files = projectFiles(basename(folder), await readManifest())
  const names = Object.keys(files)
  for (const name of names)
    if (await stat(join(folder, name)).catch(() => undefined))
      return refuse('cli.init.exists', `${folder} has a file ${name}. Nothing was written.`, {
        path: join(folder, name),
        hint: 'Name a new folder: `concord init <folder>`.',
      })
  const written: string[] = []
  let created: string | undefined
  try {
    created = await mkdir(folder, { recursive: true })
    for (const [name, text] of Object.entries(files)) {
      const file = join(folder, name)
      await mkdir(dirname(file), { recursive: true })
      await writeFile(file, text, { flag: 'wx' })
      written.push(file)
    }
    return accept({ folder, files: names })
  } catch (error) {
    for (const path of created === undefined ? written : [created]) await rm(path, { recursive: true, force: true })
    return refuse('cli.file.unwritable', `${folder} cannot be written: ${(error as Error).message}.`, { path: folder })
  }
}

type Manifest = {
  readonly name: string
  readonly version: string
  readonly allowScripts: Readonly<Record<string, true>>
} & Readonly<Record<'dependencies' | 'devDependencies', Readonly<Record<string, string>>>>

async function readManifest(): Promise<Manifest> {
  return JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as Manifest
}

/** With the versions that this release is tested with. */
function projectFiles(folderName: string, manifest: Manifest): Readonly<Record<string, string>> {
  const { name, version, dependencies, devDependencies, allowScripts } = manifest
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`
  const { zod } = dependencies
  const { '@types/node': nodeTypes, node, typescript } = devDependencies
  return {
    'package.json': json({
      name:
        folderName
          .toLowerCase()
          .replaceAll(/[^a-z0-9]+/g, '-')
          .replaceAll(/^-|-$/g, '') || 'project',
      private: true,
      type: 'module',
      scripts: { dev: 'concord dev', start: 'concord up', test: 'node --test', check: 'tsc' },
      dependencies: { [name]: version, zod },
      // npm puts this Node first in the path of its scripts, so that the machine may have an older one.
      devDependencies: { '@types/node': nodeTypes, node, typescript },
      allowScripts,
    }),
    'tsconfig.json': json({
      compilerOptions: {
        target: 'es2024',
        module: 'nodenext',
        strict: true,
        noEmit: true,
        allowImportingTsExtensions: true,
        erasableSyntaxOnly: true,
        verbatimModuleSyntax: true,
        types: ['node'],
      },
    }),
    '.gitignore': 'node_modules/\n.concord/\n',
    '.editorconfig':
      'root = true\n\n[*]\ncharset = utf-8\nend_of_line = lf\nindent_style = space\nindent_size = 2\ninsert_final_newline = true\n',
    'concord.config.ts': `import { defineProject } from '${name}'
import { refund } from './refund.ts'

export default defineProject({ catalog: [refund] })
`,
    'refund.ts': `import { allow, ask, defineCommand, defineEffect, deny } from '${name}'
import { z } from 'zod'

// One action on the outside world, and how to take it back. Call your payment provider here.
const payBack = defineEffect('payments.refund', {
  input: z.object({ order_id: z.string(), amount: z.number() }),
  class: 'keyed', // the provider takes our idempotency key: a retry pays once
  do: async ({ input }) => ({ refund_id: \`re_\${input.order_id}\` }),
  undo: async ({ result }) => ({ reversed: result.refund_id }),
})

export const refund = defineCommand('refund', {
  input: z.object({ order_id: z.string(), amount: z.number().positive() }),
  key: ({ order_id }) => \`refund:\${order_id}\`,
  policy: ({ amount }) => (amount > 5_000 ? deny('Above 5000.') : amount >= 50 ? ask(1, 'refund-approver') : allow()),
  steps: (input) => [payBack(input)],
  onFailure: 'undo',
})
`,
    'refund.test.ts': `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openTestConcord } from '${name}/testing'
import project from './concord.config.ts'
import { refund } from './refund.ts'

test('20 is paid, 60 waits for an approver, 6000 is denied', async (t) => {
  const concord = await openTestConcord({ project })
  t.after(() => concord.close())
  const dora = await concord.person('dora', 'refund-approver')
  const ask = async (order_id: string, amount: number) =>
    concord.wait(await concord.submit(refund, { order_id, amount }))

  assert.equal((await ask('o1', 20)).result?.refund_id, 're_o1')
  assert.equal((await ask('o2', 6_000)).error, 'Above 5000.')

  const asked = await ask('o3', 60)
  assert.equal(asked.status, 'waiting_for_approval')
  const [card] = await dora.inbox(asked)
  assert.ok(card)
  await dora.approve(card)
  assert.equal((await concord.wait(asked)).status, 'succeeded')
  assert.equal(concord.calls.length, 2)
})
`,
  }
}
