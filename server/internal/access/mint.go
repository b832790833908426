package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// How long what Mint makes is valid: long enough to try, short enough that nobody builds on it.
const (
	authorityLife = 2 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour
	slack         = 5 * time.Minute // clocks differ
)

// Minted are the files of an authority for trying, with a node's certificate and a client's.
type Minted struct {
	CA         string `json:"ca"`
	CAKey      string `json:"ca_key"`
	Server     string `json:"server"`
	ServerKey  string `json:"server_key"`
	Client     string `json:"client"`
	ClientKey  string `json:"client_key"`
	ClientName string `json:"client_name"` // what a line of the file of tokens calls it
}

// Mint makes an authority and certificates of it (ECDSA, P-256) in a folder: a node's for the hosts, and a client's
// called client. It overwrites nothing: if one of the files is there, it writes none.
func Mint(folder string, hosts []string, client string, now time.Time) (Minted, error) {
	in := func(name string) string { return filepath.Join(folder, name) }
	m := Minted{in("ca.pem"), in("ca.key"), in("server.pem"), in("server.key"), in("client.pem"), in("client.key"), client}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return m, err
	}
	for _, path := range []string{m.CA, m.CAKey, m.Server, m.ServerKey, m.Client, m.ClientKey} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return m, fmt.Errorf("%s is there already, and nothing is overwritten: name another folder, or remove what is in this one", path)
		}
	}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "eider, for trying"}, NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	ca, caKey, err := issue(authority, nil, nil, m.CA, m.CAKey, now)
	if err != nil {
		return m, err
	}
	server := &x509.Certificate{Subject: pkix.Name{CommonName: "eider registry"}, NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	if _, _, err = issue(server, ca, caKey, m.Server, m.ServerKey, now); err != nil {
		return m, err
	}
	caller := &x509.Certificate{Subject: pkix.Name{CommonName: client}, NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	_, _, err = issue(caller, ca, caKey, m.Client, m.ClientKey, now)
	return m, err
}

// issue signs a certificate, by itself if there is no parent, and writes it and its key.
func issue(c, parent *x509.Certificate, signer *ecdsa.PrivateKey, certFile, keyFile string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	c.NotBefore = now.Add(-slack)
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err = WriteNew(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})); err != nil {
		return nil, nil, err
	}
	if err = WriteNew(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})); err != nil {
		return nil, nil, err
	}
	signed, err := x509.ParseCertificate(der)
	return signed, key, err
}

// WriteNew writes a file that isn't there yet, for its owner alone.
func WriteNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Replace writes a file of secrets in one step, for its owner alone: whoever reads it meanwhile sees all of the old
// or all of the new.
func Replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".eider-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what matters is why it isn't the file
	}
	return err
}
