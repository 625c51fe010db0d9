/** The environment is read strictly: every wrong or unknown setting stops the start with its name and the fix. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readConfig } from './config.ts'
import { settings } from './settings.ts'

const read = (environment: Record<string, string>) => readConfig(environment, '/srv/app')

describe('settings', () => {
  test('an empty environment gives the defaults, with the home inside the folder', () => {
    const config = read({})
    assert.ok(config.ok)
    assert.equal(config.value.home, '/srv/app/.concord')
    assert.equal(config.value.port, 7420)
    assert.equal(config.value.host, '127.0.0.1')
    assert.equal(config.value.databaseUrl, undefined)
  })

  test('values are read, and empty values count as unset', () => {
    const config = read({
      CONCORD_HOME: '/data/c',
      CONCORD_PORT: '8080',
      CONCORD_LOG_LEVEL: '',
      DATABASE_URL: 'postgres://h/d',
    })
    assert.ok(config.ok)
    assert.deepEqual(
      [config.value.home, config.value.port, config.value.logLevel, config.value.databaseUrl],
      ['/data/c', 8080, undefined, 'postgres://h/d'],
    )
  })

  test('a short secret of functions is refused by name', () => {
    const config = read({ CONCORD_FUNCTION_SECRET: 'short' })
    assert.ok(!config.ok)
    assert.deepEqual([config.code, config.path], ['app.setting.invalid', 'CONCORD_FUNCTION_SECRET'])
  })

  for (const port of ['0x1F90', '0', '65536', '80.5', '1e3', ' 80', 'http', '-1', '99999999999']) {
    test(`port ${port} is refused by name`, () => {
      const config = read({ CONCORD_PORT: port })
      assert.ok(!config.ok)
      assert.equal(config.code, 'app.setting.invalid')
      assert.equal(config.path, 'CONCORD_PORT')
    })
  }

  test('the limit of schedules has a default and bounds', () => {
    const config = read({ CONCORD_SCHEDULES_MAX: '5' })
    assert.ok(config.ok && config.value.schedulesMax === 5)
    for (const wrong of ['0', '100001', 'many']) {
      const refused = read({ CONCORD_SCHEDULES_MAX: wrong })
      assert.ok(!refused.ok && refused.code === 'app.setting.invalid' && refused.path === 'CONCORD_SCHEDULES_MAX')
    }
  })

  test('a value outside a closed list names the list', () => {
    const config = read({ CONCORD_LOG_LEVEL: 'loud' })
    assert.ok(!config.ok)
    assert.match(config.hint ?? '', /silent, error, warn/)
  })

  test('an unknown CONCORD_ variable is refused with the nearest name', () => {
    const config = read({ CONCORD_PROT: '7420' })
    assert.ok(!config.ok)
    assert.equal(config.code, 'app.setting.unknown')
    assert.match(config.hint ?? '', /CONCORD_PORT/)
    const other = read({ CONCORD_ZZZZZZZZZZZZ: '1' })
    assert.match(other.ok ? '' : (other.hint ?? ''), /`concord doctor --settings`/)
    const key = read({ CONCORD_API_KEY: 'ck_x' })
    assert.match(key.ok ? '' : (key.hint ?? ''), /Did you mean CONCORD_KEY\?/)
  })

  test('foreign variables are ignored', () => {
    assert.ok(read({ PATH: '/bin', OTEL_SERVICE_NAME: 'x', HOME: '/root' }).ok)
  })

  test('half an identity provider is refused, a whole one is taken', () => {
    const half = read({ CONCORD_JWT_ISSUER: 'https://id.example.com/' })
    assert.ok(!half.ok)
    assert.equal(half.code, 'app.setting.invalid')
    const whole = {
      CONCORD_JWT_ISSUER: 'https://i/',
      CONCORD_JWT_AUDIENCE: 'c',
      CONCORD_JWT_JWKS_URL: 'https://i/jwks',
    }
    assert.ok(read(whole).ok)
  })

  test('half a store of artifacts is refused, a whole one is taken, and no refusal shows its secret', () => {
    const whole = {
      CONCORD_S3_URL: 'https://s3.example.com',
      CONCORD_S3_BUCKET: 'b',
      CONCORD_S3_ACCESS_KEY: 'k',
      CONCORD_S3_SECRET_KEY: 'hidden-secret',
    }
    assert.ok(read(whole).ok)
    for (const name of Object.keys(whole)) {
      const half = read({ ...whole, [name]: '' })
      assert.equal(half.ok ? 'taken' : half.code, 'app.setting.invalid', name)
      assert.doesNotMatch(JSON.stringify(half), /hidden-secret/)
    }
  })

  test('every setting has a unique name, a meaning and an example', () => {
    const all = Object.values(settings)
    assert.equal(new Set(all.map((setting) => setting.variable)).size, all.length)
    for (const setting of all) assert.ok(setting.meaning !== '' && setting.example !== '', setting.variable)
  })
})
