import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { settings } from '#app/settings'
import { helpPin, readHelp } from './named-commands.ts'
import { readTree } from './tree.ts'

const files = [...readTree()].filter(([path]) => path.startsWith('deploy/') || path === 'docs/guides/deploy.md')
const known = new Set<string>(Object.values(settings).map(({ variable }) => variable))
const commands = readHelp(readFileSync(helpPin, 'utf8'))

describe('deploy', () => {
  test('every setting that a file names exists', () => {
    for (const [path, text] of files)
      for (const [name] of text.matchAll(/\bCONCORD_[A-Z0-9_]*[A-Z0-9]/g))
        assert.ok(known.has(name), `${path}: ${name}`)
  })

  test('every file starts Concord with a command that exists', () => {
    const started = files.flatMap(([, text]) => [
      ...text.matchAll(/(?:^CMD \["|^ExecStart=.*\/concord |\bargs: \[|\bcommand: \[)([a-z]+)/gm),
    ])
    assert.deepEqual([...new Set(started.map(([, command = '']) => command))].toSorted(), ['up', 'worker'])
    for (const [, command = ''] of started) assert.ok(commands.has(command), command)
  })

  for (const [path, text] of files.filter(([each]) => each.endsWith('.yaml')))
    test(`${path} is YAML`, () => {
      const documents = parseAllDocuments(text, { strict: true, uniqueKeys: true })
      assert.ok(Array.isArray(documents))
      assert.deepEqual(
        documents.flatMap(({ errors, warnings }) => [...errors, ...warnings]),
        [],
      )
      // Aliases resolve, and every manifest says what it is.
      for (const document of documents) {
        const { kind, apiVersion, services } = document.toJS() as Record<string, unknown>
        assert.ok(services || (kind && apiVersion), path)
      }
    })

  test('no proxy publishes the metrics', () => {
    const textOf = (name: string) => files.find(([path]) => path === `deploy/${name}`)?.[1] ?? ''
    assert.match(textOf('nginx.conf'), /location = \/metrics \{\s+return 404;/)
    assert.match(textOf('Caddyfile'), /respond \/metrics 404/)
    type Path = { path: string; pathType: string; backend: { service: { name: string } } }
    type Manifest = {
      kind: string
      metadata: { name: string }
      spec: { rules?: { http: { paths: Path[] } }[]; selector?: object }
    }
    const manifests = parseAllDocuments(textOf('kubernetes.yaml')).map((each) => each.toJS() as Manifest)
    const paths = manifests.flatMap(({ spec }) => spec?.rules ?? []).flatMap(({ http }) => http.paths)
    const metrics = paths.find(({ path }) => path === '/metrics')
    assert.equal(metrics?.pathType, 'Exact')
    const target = manifests.find(
      ({ kind, metadata }) => kind === 'Service' && metadata.name === metrics.backend.service.name,
    )
    assert.ok(target && target.spec.selector === undefined, 'a service without pods')
  })

  for (const [path, text] of files.filter(([each]) => each.endsWith('.service')))
    test(`${path} is a unit that systemd accepts`, (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'concord-unit-'))
      t.after(() => rmSync(folder, { recursive: true }))
      const unit = join(folder, path.slice('deploy/'.length))
      writeFileSync(unit, text.replaceAll(/^(ExecStart=)\S+/gm, `$1${process.execPath}`))
      const { error, stderr } = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' })
      if (error) return t.skip('systemd-analyze is not installed')
      assert.equal(stderr, '')
    })
})
