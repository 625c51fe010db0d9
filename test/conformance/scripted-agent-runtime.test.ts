/** The scripted runtime in the common suite; and that no agent runtime reaches anything but its turn. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'

import { scriptedRuntime } from '#domains/agents'
import { findImports } from '../../scripts/source/imports.ts'
import { agentRuntimeCase } from './agent-runtime.case.ts'

const noModel = () => Promise.reject(new Error('no model'))

agentRuntimeCase('scripted', {
  open: scriptedRuntime,
  turn: {
    modelConfig: {},
    runtimeConfig: {
      name: 'scripted',
      transcript: [{ calls: [{ tool: 'look', payload: { n: 1 } }] }, { final: { text: 'seen' } }],
    },
    askModel: noModel,
  },
})

const pure = /agent-runtime\.ts$|^#kernel\/(agent-step|json-value)$|^zod$/
const withoutSystem = { allowed: pure, never: /\bDate\b|\bfetch\b|process\.|setTimeout|globalThis/ }
/** The one that runs programs starts the declared program, serves its proxy, and removes what the program leaves behind. */
const withPrograms = {
  allowed: new RegExp(`${pure.source}|^#kernel/secret|^node:(path|os|fs/promises|crypto|http)$|^#domains/connectors$`),
  never: /\bDate\b|\bfetch\b|process\.env|globalThis/,
}
/** Of these modules they import nothing else. */
const named: Readonly<Record<string, string>> = {
  '#domains/connectors': '{ openWatchedProcess }',
  'node:http': '{ createServer, type IncomingMessage, type ServerResponse }',
}
const adapters = [
  { file: 'src/domains/agents/scripted-runtime.ts', ...withoutSystem },
  { file: 'src/domains/agents/models/ai-sdk-runtime.ts', ...withoutSystem },
  { file: 'src/domains/agents/process/process-runtime.ts', ...withPrograms },
]

/** The file and the files of the room that it imports, except the port. */
async function readWithParts(url: URL, seen = new Map<string, string>()): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(url, 'utf8')
  seen.set(url.href, text)
  for (const { specifier } of findImports(text)) {
    const part = new URL(specifier, url)
    if (specifier.startsWith('.') && !pure.test(specifier) && !seen.has(part.href)) await readWithParts(part, seen)
  }
  return seen
}

test('[AGT-01] no agent runtime and no part of one reaches the store, commands, memory or a connector; two are pure, one starts its program', async () => {
  for (const { file, allowed, never } of adapters) {
    for (const [part, text] of await readWithParts(new URL(`../../${file}`, import.meta.url))) {
      const foreign = findImports(text).filter(
        ({ specifier, kind }) =>
          !(kind === 'import' || kind === 'type') || !(specifier.startsWith('.') || allowed.test(specifier)),
      )
      assert.deepEqual(foreign, [], part)
      assert.doesNotMatch(text, never, part)
      for (const [, names, from = ''] of text.matchAll(/import ([^']*) from '([^']*)'/g))
        assert.equal(names, named[from] ?? names, part)
    }
  }
})

test('[AGT-20] neither the schema nor the port names an agent framework or a provider of models', async () => {
  for (const file of ['src/store/schema.sql', 'src/domains/agents/agent-runtime.ts']) {
    const text = await readFile(new URL(`../../${file}`, import.meta.url), 'utf8')
    assert.ok(text.includes(file.endsWith('.sql') ? 'model_config' : 'AgentRuntime'))
    assert.doesNotMatch(
      text,
      /lang ?chain|lang ?graph|crew ?ai|auto ?gen|llama|mastra|open ?ai|anthropic|claude|gemini|vercel|ai sdk|semantic kernel/i,
      file,
    )
  }
})
